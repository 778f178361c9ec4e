// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"errors"
	"math"
	"testing"
)

// member is a JSON text and what a member of one type makes of it: a value, or
// the message of a *SyntaxError, which is empty for what is no JSON.
type member struct {
	in   string
	want any
}

func checkMembers(t *testing.T, read func(*Scanner) (any, error), members []member) {
	t.Helper()
	for _, m := range members {
		s := NewScanner([]byte(m.in))
		got, err := read(s)
		want, fails := m.want.(error)
		switch {
		case fails:
			if msg := syntaxMessage(t, m.in, err); msg != want.Error() {
				t.Errorf("%s: %q, want %q", m.in, msg, want)
			}
		case err != nil || got != m.want:
			t.Errorf("%s: %v, %v, want %v", m.in, got, err, m.want)
		case s.End() != nil:
			t.Errorf("%s: stops at byte %d", m.in, s.Offset())
		}
	}
}

const structure = "Start of structure or map found where not expected"

func TestText(t *testing.T) {
	t.Parallel()
	checkMembers(t, func(s *Scanner) (any, error) { return s.Text() }, []member{
		{` "a\u0062"`, "ab"},
		{`""`, ""},
		{`true`, errors.New("TRUE_VALUE cannot be converted to String")},
		{`false`, errors.New("FALSE_VALUE cannot be converted to String")},
		{`-12`, errors.New("NUMBER_VALUE cannot be converted to String")},
		{`1.5`, errors.New("DECIMAL_VALUE cannot be converted to String")},
		{`1e5`, errors.New("DECIMAL_VALUE cannot be converted to String")},
		{`1E5`, errors.New("DECIMAL_VALUE cannot be converted to String")},
		{`null`, errors.New("NULL_VALUE cannot be converted to String")},
		{`[]`, errors.New("Unrecognized collection type class java.lang.String")},
		{`{}`, errors.New(structure)},
		{`1.`, errors.New("")},
		{``, errors.New("")},
		{`x`, errors.New("")},
		{`"`, errors.New("")},
	})
}

func TestBool(t *testing.T) {
	t.Parallel()
	checkMembers(t, func(s *Scanner) (any, error) { return s.Bool() }, []member{
		{` true`, true},
		{`false`, false},
		{`"true"`, errors.New("Unexpected token received from parser")},
		{`1`, errors.New("NUMBER_VALUE cannot be converted to Boolean")},
		{`1.5`, errors.New("DECIMAL_VALUE cannot be converted to Boolean")},
		{`[]`, errors.New("Unrecognized collection type class java.lang.Boolean")},
		{`{}`, errors.New(structure)},
		{`null`, errors.New("NULL_VALUE cannot be converted to Boolean")},
		{`tru`, errors.New("")},
		{``, errors.New("")},
		{`x`, errors.New("")},
	})
}

func TestInt(t *testing.T) {
	t.Parallel()
	checkMembers(t, func(s *Scanner) (any, error) { return s.Int("Integer") }, []member{
		{` 5`, int64(5)},
		{`-0`, int64(0)},
		{`1.9`, int64(1)},
		{`-1.9`, int64(-1)},
		{`1e3`, int64(1000)},
		{`9223372036854775807`, int64(math.MaxInt64)},
		{`-9223372036854775808`, int64(math.MinInt64)},
		{`9223372036854775808`, int64(math.MaxInt64)},
		{`-9223372036854775809`, int64(math.MinInt64)},
		{`1e999`, int64(math.MaxInt64)},
		{`-1e999`, int64(math.MinInt64)},
		{`1e-999`, int64(0)},
		{`"5"`, errors.New("STRING_VALUE cannot be converted to Integer")},
		{`false`, errors.New("FALSE_VALUE cannot be converted to Integer")},
		{`null`, errors.New("NULL_VALUE cannot be converted to Integer")},
		{`[]`, errors.New("Unrecognized collection type class java.lang.Integer")},
		{`{}`, errors.New(structure)},
		{`-`, errors.New("")},
		{``, errors.New("")},
		{`x`, errors.New("")},
	})
}

func TestIntNamesItsType(t *testing.T) {
	t.Parallel()
	checkMembers(t, func(s *Scanner) (any, error) { return s.Int("Long") }, []member{
		{`"5"`, errors.New("STRING_VALUE cannot be converted to Long")},
		{`true`, errors.New("TRUE_VALUE cannot be converted to Long")},
	})
}

func TestFloat(t *testing.T) {
	t.Parallel()
	checkMembers(t, func(s *Scanner) (any, error) { return s.Float("Double") }, []member{
		{` 5`, 5.0},
		{`-1.5e2`, -150.0},
		{`1e999`, math.MaxFloat64},
		{`-1e999`, -math.MaxFloat64},
		{`1e-999`, 0.0},
		{`"5"`, errors.New("STRING_VALUE cannot be converted to Double")},
		{`1.`, errors.New("")},
		{``, errors.New("")},
		{`x`, errors.New("")},
	})
}

func TestBlob(t *testing.T) {
	t.Parallel()
	checkMembers(t, func(s *Scanner) (any, error) { b, err := s.Blob(); return string(b), err }, []member{
		{` "3q2+7w=="`, "\xde\xad\xbe\xef"},
		{`""`, ""},
		{`"AAE\u003d"`, "\x00\x01"},
		{`"\/w=="`, "\xff"},
		{`5`, errors.New("only base-64-encoded strings are convertible to bytes")},
		{`true`, errors.New("only base-64-encoded strings are convertible to bytes")},
		{`[]`, errors.New("only base-64-encoded strings are convertible to bytes")},
		{`{}`, errors.New("only base-64-encoded strings are convertible to bytes")},
		{`"AAAAA"`, errors.New("Base64 encoded length is expected a multiple of 4 bytes but found: 5")},
		{`"AA"`, errors.New("Base64 encoded length is expected a multiple of 4 bytes but found: 2")},
		{`" AA=="`, errors.New("Base64 encoded length is expected a multiple of 4 bytes but found: 5")},
		{`x`, errors.New("")},
		{`"AAAA`, errors.New("")},
	})
}

func TestBlobIsStrict(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"AAB=", "AB==", "A===", "====", "=AAA", "A=AA", "AA=A", "AA==AA==", "AAA==AAA", "AA-_", "AA A", "A\\nAA", "A\\rAA", "AA\\r\\n",
		"AAA\\n", "AAAé000", "AA\\u0000A", "!@#$", "AAA=\\n\\n\\n\\n",
	} {
		in := `"` + text + `"`
		_, err := NewScanner([]byte(in)).Blob()
		if msg := syntaxMessage(t, in, err); msg != "Invalid last non-pad Base64 character dectected" {
			t.Errorf("%s: %q", in, msg)
		}
	}
}
