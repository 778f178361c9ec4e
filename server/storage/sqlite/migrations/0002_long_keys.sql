-- SPDX-License-Identifier: Apache-2.0
-- long_keys: 1 once the table had a row whose partition key is shortened (pk
-- ends in 01), and for ever: its rows in the order of pk are then not in the
-- order of their keys.

ALTER TABLE tables ADD COLUMN long_keys INTEGER NOT NULL DEFAULT 0;
UPDATE tables SET long_keys = 1 WHERE id IN (SELECT t FROM r WHERE substr(pk, -1) = x'01');
