// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !windows

package sqlite

import "errors"

// freeSpace is not known here.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

// syncDir does nothing: what this system can is not known.
func syncDir(string) error { return nil }
