// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
)

// Text reads a member of type String; other JSON types are refused with the
// service's text.
func (s *Scanner) Text() (string, error) {
	b, err := s.text()
	if err == nil {
		err = s.Take(CostString + len(b))
	}
	if err != nil {
		return "", err
	}
	return string(b), nil
}

func (s *Scanner) text() ([]byte, error) {
	t, err := s.Peek()
	switch {
	case err != nil:
		return nil, err
	case t == TokenString:
		return s.Bytes()
	}
	return nil, s.unexpected(t, "String")
}

// Bool reads a member of type Boolean.
func (s *Scanner) Bool() (bool, error) {
	t, err := s.Peek()
	switch {
	case err != nil:
		return false, err
	case t == TokenTrue || t == TokenFalse:
		return t == TokenTrue, s.Literal()
	case t == TokenString:
		return false, s.Fail("Unexpected token received from parser")
	}
	return false, s.unexpected(t, "Boolean")
}

// Int reads a member of type Integer or Long, as name says. A fraction is cut
// off, as the service does.
func (s *Scanner) Int(name string) (int64, error) {
	raw, err := s.numberMember(name)
	if err != nil {
		return 0, err
	}
	if i, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return i, nil
	}
	f, _ := strconv.ParseFloat(string(raw), 64) // out of range: infinite
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64, nil
	case f <= math.MinInt64:
		return math.MinInt64, nil
	}
	return int64(f), nil
}

// Float reads a member of type Double, as name says; a number beyond its range
// becomes the nearest one within.
func (s *Scanner) Float(name string) (float64, error) {
	raw, err := s.numberMember(name)
	if err != nil {
		return 0, err
	}
	f, _ := strconv.ParseFloat(string(raw), 64) // out of range: infinite
	return min(max(f, -math.MaxFloat64), math.MaxFloat64), nil
}

// numberMember reads the text of a member of a numeric type.
func (s *Scanner) numberMember(name string) ([]byte, error) {
	t, err := s.Peek()
	switch {
	case err != nil:
		return nil, err
	case t != TokenNumber:
		return nil, s.unexpected(t, name)
	}
	return s.RawNumber()
}

// Blob reads a member of type Blob: standard base64 with padding.
func (s *Scanner) Blob() ([]byte, error) {
	t, err := s.Peek()
	if err != nil {
		return nil, err
	}
	if t != TokenString {
		return nil, s.Fail("only base-64-encoded strings are convertible to bytes")
	}
	text, err := s.Bytes()
	if err != nil {
		return nil, err
	}
	if len(text)%4 != 0 {
		return nil, s.Fail("Base64 encoded length is expected a multiple of 4 bytes but found: " + strconv.Itoa(len(text)))
	}
	if err := s.Take(CostString + len(text)); err != nil {
		return nil, err
	}
	out, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") { // line ends, the decoder skips
		return nil, s.Fail("Invalid last non-pad Base64 character dectected")
	}
	return out, nil
}

// unexpected is the service's text for a JSON value of type t where target, a
// String, Boolean, Integer or Long, is expected.
func (s *Scanner) unexpected(t Token, target string) error {
	switch t {
	case TokenEnd:
		return s.Fail("")
	case TokenTrue:
		return s.Fail("TRUE_VALUE cannot be converted to " + target)
	case TokenFalse:
		return s.Fail("FALSE_VALUE cannot be converted to " + target)
	case TokenNull:
		return s.Fail("NULL_VALUE cannot be converted to " + target)
	case TokenString:
		return s.Fail("STRING_VALUE cannot be converted to " + target)
	case TokenNumber:
		raw, err := s.RawNumber()
		if err != nil {
			return err
		}
		if bytes.ContainsAny(raw, ".eE") {
			return s.Fail("DECIMAL_VALUE cannot be converted to " + target)
		}
		return s.Fail("NUMBER_VALUE cannot be converted to " + target)
	case TokenArray:
		return s.Fail("Unrecognized collection type class java.lang." + target)
	}
	return s.Fail("Start of structure or map found where not expected")
}
