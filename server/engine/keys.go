// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"

	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

const (
	schemaMismatch   = "The provided key element does not match the schema"
	hashTooLong      = api.InvalidParameters + "Size of hashkey has exceeded the maximum size limit of2048 bytes"
	rangeTooLong     = api.InvalidParameters + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
	keyNotValid      = "One or more parameter values are not valid. "
	emptyKey         = "The AttributeValue for a key attribute cannot contain an empty "
	indexKeyInPut    = "A value specified for a secondary index key is not supported. "
	indexKeyInUpdate = "The update expression attempted to update a secondary index key to a value that is not supported. "
)

// keyOf checks a member that names a row, which must hold the key attributes
// and nothing else, and encodes it.
func keyOf(t *storage.Table, key ddb.Item) (storage.Key, error) {
	n := 1
	if t.Range != nil {
		n = 2
	}
	if len(key) != n {
		return storage.Key{}, api.Validation(schemaMismatch)
	}
	return itemKey(t, key)
}

// itemKey checks the key attributes of an item as BatchWriteItem words it, and
// encodes them.
func itemKey(t *storage.Table, it ddb.Item) (storage.Key, error) {
	k, err := t.KeyOf(it)
	return k, keyError(err)
}

// putKey is itemKey as PutItem words it.
func putKey(t *storage.Table, it ddb.Item) (storage.Key, error) {
	k, err := t.KeyOf(it)
	if err == nil {
		return k, nil
	}
	var bad *storage.KeyError
	if errors.As(err, &bad) {
		switch bad.Problem {
		case storage.Missing:
			err = api.Validation(api.InvalidParameters + "Missing the key " + bad.Attr.Name + " in the item")
		case storage.WrongType:
			err = api.Validation(api.InvalidParameters + "Type mismatch for key " + bad.Attr.Name +
				" expected: " + bad.Attr.Kind.String() + " actual: " + bad.Actual.String())
		}
	}
	return k, keyError(err)
}

// keyError turns a *storage.KeyError into the answer for a key that names a
// row; others stay as they are.
func keyError(err error) error {
	if err == nil {
		return nil
	}
	var bad *storage.KeyError
	if !errors.As(err, &bad) {
		return err
	}
	switch bad.Problem {
	case storage.EmptyKey:
		return api.Validation(keyNotValid + emptyKey + emptyKind(bad.Attr) + " value. Key: " + bad.Attr.Name)
	case storage.HashTooLong:
		return api.Validation(hashTooLong)
	case storage.RangeTooLong, storage.EncodedTooLong:
		return api.Validation(rangeTooLong)
	}
	return api.Validation(schemaMismatch)
}

func emptyKind(a storage.KeyAttr) string {
	if a.Kind == ddb.KindB {
		return "binary"
	}
	return "string"
}

// indexKeyError returns the answer to a write that would leave a key attribute
// of an index unusable; it is the item as it would become. An update words
// empty values in its own way.
func indexKeyError(bad *storage.BadKey, it ddb.Item, update bool) *api.Error {
	name := bad.Attr.Name
	switch bad.Reason {
	case storage.WrongType:
		return api.Validation(api.InvalidParameters + "Type mismatch for Index Key " + name + " Expected: " + bad.Attr.Kind.String() +
			" Actual: " + it[name].Kind().String() + " IndexName: " + bad.Index.Name)
	case storage.EmptyKey:
		if update {
			return api.Validation(keyNotValid + indexKeyInUpdate + emptyKey + emptyKind(bad.Attr) + " value.")
		}
		return api.Validation(keyNotValid + indexKeyInPut + emptyKey + emptyKind(bad.Attr) +
			" value. IndexName: " + bad.Index.Name + ", IndexKey: " + name)
	case storage.HashTooLong:
		return api.Validation(hashTooLong)
	}
	return api.Validation(rangeTooLong)
}

// rowSet is a set of rows of several tables.
type rowSet map[rowName]struct{}

type rowName struct {
	table  storage.TableID
	pk, sk string
}

// add adds a row; false when it was in the set.
func (s rowSet) add(t *storage.Table, k storage.Key) bool {
	r := rowName{t.ID, string(k.PK), string(k.SK)}
	_, twice := s[r]
	s[r] = struct{}{}
	return !twice
}
