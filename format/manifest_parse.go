// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/extenddb/extenddb/format/ddb"
)

// ErrManifest is behind every manifestError of a manifest but *VersionError and
// *ChecksumError.
var ErrManifest = errors.New("invalid backup manifest")

// VersionError says that a backup has a format this build does not know.
type VersionError struct{ Found int64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("unsupported backup format version %d; this build supports format version %d", e.Found, Version)
}

// ChecksumError says that a manifest is not what was sealed.
type ChecksumError struct {
	Expected string // as it is stored
	Computed string // of the canonical form
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("manifest checksum mismatch: expected %s, computed %s", e.Expected, e.Computed)
}

// ReadManifest reads a manifest of at most maxBytes bytes; 0 is
// DefaultMaxManifest. Errors of r are returned wrapped; others are those of
// ParseManifest.
func ReadManifest(r io.Reader, maxBytes int64) (*Manifest, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxManifest
	}
	data, err := io.ReadAll(io.LimitReader(r, min(maxBytes, math.MaxInt64-1)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read manifest: %w", err)
	case int64(len(data)) > maxBytes:
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrManifest, maxBytes)
	}
	return ParseManifest(data)
}

// ParseManifest reads and verifies a manifest: its version, its syntax, its
// digest, and whether its members agree with each other, in this order. The
// digest proves that the manifest is whole, not who wrote it. Members this
// build does not know are ignored.
//
// It allocates at most twice as much as data has, and 1 MiB.
func ParseManifest(data []byte) (*Manifest, error) {
	m, err := parse(data)
	if err != nil {
		return nil, manifestError(err)
	}
	return m, nil
}

// manifestError makes err an ErrManifest, unless it is an error of its own.
func manifestError(err error) error {
	version, checksum := new(VersionError), new(ChecksumError)
	if errors.As(err, &version) || errors.As(err, &checksum) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrManifest, err)
}

func parse(data []byte) (*Manifest, error) {
	if err := wellFormed(data); err != nil {
		return nil, err
	}
	top := cursor{data: data}
	raw := top.next()
	if raw[0] != '{' {
		return nil, unexpected("an object", raw)
	}
	version, err := formatVersion(raw)
	if err != nil {
		return nil, err
	}
	switch version {
	case 1:
		return parseV1(raw)
	default:
		return nil, &VersionError{Found: version}
	}
}

// formatVersion reads that member alone: what else a manifest of another
// version holds is unknown, and so is what its digest covers.
func formatVersion(raw []byte) (version int64, err error) {
	for c := inside(raw); ; {
		name, value := c.next(), c.next()
		switch {
		case name == nil:
			return 0, missing("format_version")
		case string(name) == `"format_version"`:
			if err := integer(value, &version); err != nil {
				return 0, within("format_version", err)
			}
			return version, nil
		}
	}
}

func parseV1(raw []byte) (*Manifest, error) {
	if err := nested(raw); err != nil {
		return nil, err
	}
	p := parser{room: 2*len(raw) + 1<<20 - reserve}
	m := new(Manifest)
	if err := p.manifest(raw, m); err != nil {
		return nil, err
	}
	if err := m.verify(raw); err != nil {
		return nil, err
	}
	return m, m.check()
}

// verify compares the stored digest with that of the canonical form, in which
// white space, order and spelling do not count, and with that of the text, in
// which unknown members do.
func (m *Manifest) verify(raw []byte) error {
	computed := m.digest()
	if m.SHA256 == computed {
		return nil
	}
	for c := inside(raw); ; {
		name, value := c.next(), c.next()
		if name == nil {
			break
		}
		if string(name) == `"manifest_sha256"` && m.SHA256 == rawDigest(raw, c.pos-len(value), c.pos) {
			return nil
		}
	}
	return &ChecksumError{Expected: cut(m.SHA256), Computed: computed}
}

// reserve is what reading allocates beside what parser counts: buffers,
// and an error.
const reserve = 64 << 10

// parser makes a Manifest of well-formed JSON. It counts the memory for it
// before it is allocated, so that no text takes more than its due.
type parser struct{ room int }

// take counts an allocation of n bytes, which the allocator rounds up.
func (p *parser) take(n int) error {
	p.room -= n + n/4 + 16
	if p.room < 0 {
		return errors.New("it takes more memory than its size allows for")
	}
	return nil
}

// field is a member of an object: its name and a pointer to where it goes. An
// optional one may be absent or null.
type field struct {
	name     string
	dst      any
	optional bool
}

// maxName is the length of the longest name of a member, every character of
// it escaped.
const maxName = 6*len("backup_creation_date_time") + 2

// object reads an object. Members that fields does not list are ignored.
func (p *parser) object(raw []byte, fields []field) error {
	if raw[0] != '{' {
		return unexpected("an object", raw)
	}
	var seen uint
	for c := inside(raw); ; {
		name, value := c.next(), c.next()
		if name == nil {
			break
		}
		i := p.find(fields, name)
		if i < 0 {
			continue
		}
		f := &fields[i]
		if seen&(1<<i) != 0 {
			return fmt.Errorf("duplicate field `%s`", f.name)
		}
		seen |= 1 << i
		if f.optional && value[0] == 'n' {
			continue
		}
		if err := p.value(value, f.dst); err != nil {
			return within(f.name, err)
		}
	}
	for i := range fields {
		if seen&(1<<i) == 0 && !fields[i].optional {
			return missing(fields[i].name)
		}
	}
	return nil
}

// find is the index of the field called name, a JSON string; -1 when none is.
func (p *parser) find(fields []field, name []byte) int {
	plain := name[1 : len(name)-1]
	if bytes.IndexByte(plain, '\\') >= 0 {
		var s string
		if len(name) > maxName || p.text(name, &s) != nil {
			return -1
		}
		plain = []byte(s)
	}
	for i := range fields {
		if string(plain) == fields[i].name {
			return i
		}
	}
	return -1
}

func (p *parser) text(raw []byte, dst *string) (err error) {
	if raw[0] != '"' {
		return unexpected("a string", raw)
	}
	plain := raw[1 : len(raw)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		if err = p.take(len(plain)); err == nil {
			*dst = string(plain)
		}
		return err
	}
	if err = p.take(8*len(raw) + 64); err != nil { // the buffer it is unescaped in grows by steps
		return err
	}
	if *dst, err = ddb.NewScanner(raw).Text(); err != nil {
		return errors.New("half of a surrogate pair")
	}
	return nil
}

// array reads an array. An empty one is not nil.
func array[T any](p *parser, raw []byte, dst *[]T) error {
	if raw[0] != '[' {
		return unexpected("an array", raw)
	}
	c := inside(raw)
	n := c.count()
	if err := p.take(n * int(reflect.TypeFor[T]().Size())); err != nil {
		return err
	}
	*dst = make([]T, n)
	for i := range *dst {
		if err := p.value(c.next(), &(*dst)[i]); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// present reads the value of an optional member.
func present[T any](p *parser, raw []byte, dst **T) error {
	if err := p.take(int(reflect.TypeFor[T]().Size())); err != nil {
		return err
	}
	*dst = new(T)
	return p.value(raw, *dst)
}

func integer(raw []byte, dst *int64) error {
	if !digit(raw[0]) && raw[0] != '-' {
		return unexpected("an integer", raw)
	}
	if bytes.ContainsAny(raw, ".eE") {
		return errors.New("expected an integer, found a fraction or an exponent")
	}
	const most = len("-9223372036854775808")
	v, err := strconv.ParseInt(string(raw[:min(len(raw), most+1)]), 10, 64)
	if err != nil {
		return errors.New("an integer out of range")
	}
	*dst = v
	return nil
}

func float(raw []byte, dst *float64) error {
	if !digit(raw[0]) && raw[0] != '-' {
		return unexpected("a number", raw)
	}
	const most = 400
	v, err := strconv.ParseFloat(string(raw[:min(len(raw), most+1)]), 64)
	if err != nil || len(raw) > most {
		return errors.New("a number out of range")
	}
	*dst = v
	return nil
}

func boolean(raw []byte, dst *bool) error {
	if raw[0] != 't' && raw[0] != 'f' {
		return unexpected("a boolean", raw)
	}
	*dst = raw[0] == 't'
	return nil
}

func unexpected(want string, raw []byte) error {
	found := "a number"
	switch raw[0] {
	case '{':
		found = "an object"
	case '[':
		found = "an array"
	case '"':
		found = "a string"
	case 't', 'f':
		found = "a boolean"
	case 'n':
		found = "null"
	}
	return fmt.Errorf("expected %s, found %s", want, found)
}

func missing(name string) error { return fmt.Errorf("missing field `%s`", name) }

// memberError is an error of one member, which path names from the top.
type memberError struct {
	path string
	err  error
}

func (e *memberError) Error() string { return e.path + ": " + e.err.Error() }
func (e *memberError) Unwrap() error { return e.err }

// within says that err, if there is one, is of the member called name.
func within(name string, err error) error {
	if err == nil {
		return nil
	}
	inner := new(memberError)
	if !errors.As(err, &inner) {
		return &memberError{path: name, err: err}
	}
	if inner.path[0] != '[' {
		name += "."
	}
	inner.path = name + inner.path
	return inner
}
