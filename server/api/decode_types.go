// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math"
	"reflect"

	"github.com/extenddb/extenddb/format/ddb"
)

// compiler makes the codecs of types; it remembers the structures it has met,
// so that a type may hold itself.
type compiler map[reflect.Type]*structure

// modelNamespace is the Java package whose class names error texts show.
const modelNamespace = "com.amazonaws.dynamodb.v20120810."

func (c compiler) codec(t reflect.Type) codec {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[jsonScanner]()) {
		return func(s *ddb.Scanner, v reflect.Value) error {
			return v.Addr().Interface().(jsonScanner).ScanJSON(s)
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.pointer(t.Elem())
	case reflect.Struct:
		return c.structure(t).scan
	case reflect.Map:
		return c.mapping(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return scanBlob
		}
		elem := nullable(t.Elem(), c.codec(t.Elem()))
		return func(s *ddb.Scanner, v reflect.Value) error { return scanList(s, v, elem) }
	}
	return scalar(t)
}

func (c compiler) structure(t reflect.Type) *structure {
	if st := c[t]; st != nil {
		return st
	}
	st := &structure{array: unrecognized + "class " + modelNamespace + t.Name(), fields: map[string]field{}}
	c[t] = st
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		st.fields[f.Name] = field{f.Index, c.codec(f.Type), composite(f.Type)}
	}
	return st
}

func (c compiler) mapping(t reflect.Type) codec {
	array := unrecognized + "java.util.Map<java.lang.String, " + javaName(t.Elem()) + ">"
	elem := nullable(t.Elem(), c.codec(t.Elem()))
	switch t { // the two of most requests
	case reflect.TypeFor[map[string]string]():
		return func(s *ddb.Scanner, v reflect.Value) error {
			return scanMapOf(s, v, array, func(e *string) (err error) {
				*e, err = s.Text()
				return err
			})
		}
	case reflect.TypeFor[map[string]AttributeValue]():
		return func(s *ddb.Scanner, v reflect.Value) error {
			return scanMapOf(s, v, array, func(e *AttributeValue) error { return e.ScanJSON(s) })
		}
	}
	return func(s *ddb.Scanner, v reflect.Value) error { return scanMap(s, v, elem, array) }
}

// scanMapOf is scanMap for a known type: no reflection for each element.
func scanMapOf[E any](s *ddb.Scanner, v reflect.Value, array string, elem func(*E) error) error {
	if err := open(s, ddb.TokenObject, array, parameterizedMismatch); err != nil {
		return err
	}
	m := map[string]E{}
	*v.Addr().Interface().(*map[string]E) = m
	cost := ddb.CostMap
	for first := true; ; first = false {
		key, ok, err := s.NextKey(first)
		if err != nil || !ok {
			return err
		}
		if err := s.Take(cost + ddb.CostString + len(key)); err != nil {
			return err
		}
		cost = ddb.CostEntry
		name := string(key)
		var e E
		if err := elem(&e); err != nil {
			return err
		}
		if len(m) < maxKept {
			m[name] = e
		}
	}
}

// pointer reads into a new t. The commonest ones do without reflection.
func (c compiler) pointer(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[string]():
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Text()
			*v.Addr().Interface().(**string) = &x
			return err
		}
	case reflect.TypeFor[bool]():
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Bool()
			*v.Addr().Interface().(**bool) = &x
			return err
		}
	}
	elem := c.codec(t)
	return func(s *ddb.Scanner, v reflect.Value) error {
		if err := s.Take(int(t.Size())); err != nil {
			return err
		}
		p := reflect.New(t)
		v.Set(p)
		return elem(s, p.Elem())
	}
}

// scalar returns the codec of a type that is one JSON value.
func scalar(t reflect.Type) codec {
	switch t.Kind() {
	case reflect.String:
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Text()
			v.SetString(x)
			return err
		}
	case reflect.Bool:
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Bool()
			v.SetBool(x)
			return err
		}
	case reflect.Int32:
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Int("Integer")
			v.SetInt(min(max(x, math.MinInt32), math.MaxInt32))
			return err
		}
	case reflect.Int64:
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Int("Long")
			v.SetInt(x)
			return err
		}
	case reflect.Float64:
		return func(s *ddb.Scanner, v reflect.Value) error {
			x, err := s.Float("Double")
			v.SetFloat(x)
			return err
		}
	}
	panic("api: a request cannot hold a " + t.String())
}

func scanBlob(s *ddb.Scanner, v reflect.Value) error {
	x, err := s.Blob()
	v.SetBytes(append([]byte{}, x...)) // not nil when empty
	return err
}

// nullable leaves a structure, list, map or pointer that is null as an element
// zero; the other types have a text of their own for it.
func nullable(t reflect.Type, read codec) codec {
	if t.Kind() != reflect.Pointer && (!composite(t) || reflect.PointerTo(t).Implements(reflect.TypeFor[jsonScanner]())) {
		return read
	}
	return func(s *ddb.Scanner, v reflect.Value) error {
		switch t, err := s.Peek(); {
		case err != nil:
			return err
		case t == ddb.TokenNull:
			return s.Literal()
		}
		return read(s, v)
	}
}

// composite reports whether t is a structure, map or list of the model. A type
// that reads itself decides for itself, but for the two of items.
func composite(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[AttributeMap]() || t == reflect.TypeFor[AttributeValue]() {
		return true
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[jsonScanner]()) {
		return false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8
	}
	return false
}

// javaName is how error texts call an element of a map.
func javaName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return javaName(t.Elem())
	case reflect.String:
		return "java.lang.String"
	case reflect.Slice:
		return "java.util.List<" + javaName(t.Elem()) + ">"
	}
	return modelNamespace + t.Name()
}
