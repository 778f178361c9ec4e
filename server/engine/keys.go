// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/storage"
)

// Limits of items and keys, in bytes as the service counts them.
const (
	maxItemSize  = 409600
	maxHashSize  = 2048
	maxRangeSize = 1024
)

const (
	schemaMismatch   = "The provided key element does not match the schema"
	hashTooLong      = api.InvalidParameters + "Size of hashkey has exceeded the maximum size limit of2048 bytes"
	rangeTooLong     = api.InvalidParameters + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
	itemTooBig       = "Item size has exceeded the maximum allowed size"
	updateTooBig     = "Item size to update has exceeded the maximum allowed size"
	keyNotValid      = "One or more parameter values are not valid. "
	emptyKeyValue    = "The AttributeValue for a key attribute cannot contain an empty "
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

// itemKey checks the key attributes of an item, as BatchWriteItem words it, and
// encodes them.
func itemKey(t *storage.Table, it ddb.Item) (storage.Key, error) {
	if it[t.Hash.Name].Kind() != t.Hash.Kind || t.Range != nil && it[t.Range.Name].Kind() != t.Range.Kind {
		return storage.Key{}, api.Validation(schemaMismatch)
	}
	return encodeKey(t, it)
}

// putKey is itemKey as PutItem words it.
func putKey(t *storage.Table, it ddb.Item) (storage.Key, error) {
	check := func(a *storage.KeyAttr) error {
		switch k := it[a.Name].Kind(); k {
		case a.Kind:
			return nil
		case 0:
			return api.Validation(api.InvalidParameters + "Missing the key " + a.Name + " in the item")
		default:
			return api.Validation(api.InvalidParameters + "Type mismatch for key " + a.Name +
				" expected: " + a.Kind.String() + " actual: " + k.String())
		}
	}
	if err := check(&t.Hash); err != nil {
		return storage.Key{}, err
	}
	if t.Range != nil {
		if err := check(t.Range); err != nil {
			return storage.Key{}, err
		}
	}
	return encodeKey(t, it)
}

// encodeKey checks the values of key attributes of the right types.
func encodeKey(t *storage.Table, it ddb.Item) (storage.Key, error) {
	hash := it[t.Hash.Name]
	if err := emptyKey(t.Hash.Name, hash); err != nil {
		return storage.Key{}, err
	}
	if t.Range != nil {
		if err := emptyKey(t.Range.Name, it[t.Range.Name]); err != nil {
			return storage.Key{}, err
		}
	}
	if len(hash.Str()) > maxHashSize && hash.Kind() != ddb.KindN {
		return storage.Key{}, api.Validation(hashTooLong)
	}
	if t.Range != nil {
		if v := it[t.Range.Name]; len(v.Str()) > maxRangeSize && v.Kind() != ddb.KindN {
			return storage.Key{}, api.Validation(rangeTooLong)
		}
	}
	return storage.KeyOf(t, it)
}

func emptyKey(name string, v ddb.Value) error {
	if v.Str() != "" {
		return nil
	}
	return api.Validation(keyNotValid + emptyKeyValue + emptyWord(v) + " value. Key: " + name)
}

func emptyWord(v ddb.Value) string {
	if v.Kind() == ddb.KindB {
		return "binary"
	}
	return "string"
}

// badIndexKey returns the answer to a write that would leave an index key
// unusable; it is the item as it would become. An update words empty keys in
// its own way.
func badIndexKey(b *storage.BadKey, it ddb.Item, update bool) *api.Error {
	v := it[b.Attr.Name]
	switch b.Reason {
	case storage.WrongType:
		return api.Validation(api.InvalidParameters + "Type mismatch for Index Key " + b.Attr.Name +
			" Expected: " + b.Attr.Kind.String() + " Actual: " + v.Kind().String() + " IndexName: " + b.Index.Name)
	case storage.EmptyKey:
		if update {
			return api.Validation(keyNotValid + indexKeyInUpdate + emptyKeyValue + emptyWord(v) + " value.")
		}
		return api.Validation(keyNotValid + indexKeyInPut + emptyKeyValue + emptyWord(v) +
			" value. IndexName: " + b.Index.Name + ", IndexKey: " + b.Attr.Name)
	case storage.HashTooLong:
		return api.Validation(hashTooLong)
	}
	return api.Validation(rangeTooLong)
}
