// SPDX-License-Identifier: Apache-2.0

package api

import (
	"reflect"

	"github.com/extenddb/extenddb/format/ddb"
)

// Decoder reads the JSON of requests of shape T. What the shape looks like is
// worked out once, by NewDecoder; a Decoder is safe for concurrent use.
//
// Members are named by the fields of T (but for those tagged json:"-"). A member that is absent or null leaves
// its field zero, one that is sent empty does not; unknown members are skipped
// and of one sent twice the last counts. Fields may be strings, bools, int32,
// int64, float64, []byte, structs, types that have ScanJSON(*ddb.Scanner) error,
// and slices, maps by string and pointers of these.
type Decoder[T any] struct{ read codec }

// NewDecoder returns a Decoder; it panics when T cannot be decoded into.
func NewDecoder[T any]() *Decoder[T] { return &Decoder[T]{compiler{}.codec(reflect.TypeFor[T]())} }

// Decode reads body into the zero value into points at. Strings are copied: the
// result does not refer to body. The error is a *ddb.SyntaxError with the
// service's text.
func (d *Decoder[T]) Decode(body []byte, into *T) error {
	return decode(ddb.NewScanner(body), reflect.ValueOf(into).Elem(), d.read)
}

// DecodeBounded is Decode with a bound on the memory of the result; see
// ddb.Scanner.Bound.
func (d *Decoder[T]) DecodeBounded(body []byte, into *T, room int, more func(int) (int, error)) error {
	s := ddb.NewScanner(body)
	s.Bound(room, more)
	return decode(s, reflect.ValueOf(into).Elem(), d.read)
}

// Decode reads body into the zero value that into points at, for where speed
// does not matter; see Decoder.
func Decode(body []byte, into any) error {
	v := reflect.ValueOf(into).Elem()
	return decode(ddb.NewScanner(body), v, compiler{}.codec(v.Type()))
}

func decode(s *ddb.Scanner, v reflect.Value, read codec) error {
	t, err := s.Peek()
	switch {
	case err != nil:
		return err
	case t == ddb.TokenEnd || t == ddb.TokenNull: // nothing a request could be
		return s.Fail("")
	}
	if err := read(s, v); err != nil {
		return err
	}
	return s.End()
}

// codec reads one value that is not null, or an element that is, into v, which
// is zero and addressable.
type codec func(s *ddb.Scanner, v reflect.Value) error

// jsonScanner is a type that reads itself.
type jsonScanner interface {
	ScanJSON(s *ddb.Scanner) error
}

// The texts for JSON values that are no structure, map or list where one is
// expected. They differ by where it is expected: as a member,
// as a structure in a list or map, as a list or map in a list or map.
const (
	memberMismatch        = "Unexpected field type"
	structureMismatch     = "Unexpected value type in payload"
	parameterizedMismatch = "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class java.lang.Class " +
		"(sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are in module java.base of loader 'bootstrap')"
	unexpectedObject = "Start of structure or map found where not expected"
	unrecognized     = "Unrecognized collection type "
)

// open reads the opening bracket want. array is the text for an array and
// scalar that for a value that is neither array nor object.
func open(s *ddb.Scanner, want ddb.Token, array, scalar string) error {
	t, err := s.Peek()
	switch {
	case err != nil:
		return err
	case t == want:
		return s.Open(want)
	case t == ddb.TokenArray:
		return s.Fail(array)
	case t == ddb.TokenObject:
		return s.Fail(unexpectedObject)
	case t == ddb.TokenEnd:
		return s.Fail("")
	}
	return s.Fail(scalar)
}

// field is one member of a structure.
type field struct {
	index     []int
	read      codec
	composite bool // a structure, map or list
}

// structure reads an object into a struct.
type structure struct {
	array  string // the text for an array
	fields map[string]field
}

func (st *structure) scan(s *ddb.Scanner, v reflect.Value) error {
	if err := open(s, ddb.TokenObject, st.array, structureMismatch); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := s.NextKey(first)
		if err != nil || !ok {
			return err
		}
		f, known := st.fields[string(key)]
		if !known {
			if err := s.Skip(); err != nil {
				return err
			}
			continue
		}
		if err := f.scan(s, v.FieldByIndex(f.index)); err != nil {
			return err
		}
	}
}

func (f *field) scan(s *ddb.Scanner, v reflect.Value) error {
	t, err := s.Peek()
	if err != nil {
		return err
	}
	v.SetZero() // it may have been sent twice
	switch t {
	case ddb.TokenNull:
		return s.Literal()
	case ddb.TokenObject, ddb.TokenArray, ddb.TokenEnd:
	default:
		if f.composite {
			return s.Fail(memberMismatch)
		}
	}
	return f.read(s, v)
}

// maxKept bounds the elements of a list or map of a request that are kept. It is
// more than anything the service accepts: an item has at most 204,800 attributes
// of two bytes. The rest is read only, lest millions of empty structures take
// thirty times the memory of the body that names them.
const maxKept = 1 << 18

// scanList reads an array into a slice.
func scanList(s *ddb.Scanner, v reflect.Value, elem codec) error {
	if err := open(s, ddb.TokenArray, "", parameterizedMismatch); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for n := 0; ; n++ {
		ok, err := s.NextElement(n == 0)
		if err != nil || !ok {
			return err
		}
		if n < maxKept {
			if err := s.Take(2 * int(v.Type().Elem().Size())); err != nil { // twice: it grew
				return err
			}
			v.Grow(1)
			v.SetLen(n + 1)
		}
		e := v.Index(min(n, maxKept-1))
		e.SetZero()
		if err := elem(s, e); err != nil {
			return err
		}
	}
}

// scanMap reads an object into a map by string; array is the text for an array.
func scanMap(s *ddb.Scanner, v reflect.Value, elem codec, array string) error {
	if err := open(s, ddb.TokenObject, array, parameterizedMismatch); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	cost := ddb.CostMap
	for first := true; ; first = false {
		key, ok, err := s.NextKey(first)
		if err != nil || !ok {
			return err
		}
		if err := s.Take(cost + ddb.CostString + len(key) + int(v.Type().Elem().Size())); err != nil {
			return err
		}
		cost = ddb.CostEntry
		name := reflect.ValueOf(string(key))
		e := reflect.New(v.Type().Elem()).Elem()
		if err := elem(s, e); err != nil {
			return err
		}
		if v.Len() < maxKept {
			v.SetMapIndex(name, e)
		}
	}
}
