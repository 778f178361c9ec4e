// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey is the length of the longest key, in bytes.
const maxKey = 1024

// CheckKey returns an ErrInvalidKey when key cannot name an object: it is 1 to
// 1,024 bytes of UTF-8, components separated by "/", none of them empty, "."
// or "..", without backslash and control characters.
func CheckKey(key string) error {
	switch {
	case key == "":
		return invalid("key is empty")
	case len(key) > maxKey:
		return invalid("key is %d bytes; the maximum is %d", len(key), maxKey)
	}
	for c := range strings.SplitSeq(key, "/") {
		switch {
		case c == "":
			return invalid("key has an empty component (leading, trailing, or doubled '/')")
		case c == "." || c == "..":
			return invalid("key component '%s' is not allowed", c)
		case strings.Contains(c, `\`):
			return invalid("key component contains a backslash")
		case strings.ContainsFunc(c, unicode.IsControl):
			return invalid("key component contains a control character")
		case !utf8.ValidString(c):
			return invalid("key component is not valid UTF-8")
		}
	}
	return nil
}

// CleanPrefix returns a prefix without its trailing "/", which it may have one
// of; an ErrInvalidKey when it is not empty and not a key otherwise.
func CleanPrefix(prefix string) (string, error) {
	if prefix == "/" {
		return "", invalid("prefix consists only of a separator")
	}
	clean := strings.TrimSuffix(prefix, "/")
	if clean == "" {
		return "", nil
	}
	return clean, CheckKey(clean)
}

// HasPrefix reports whether key is the (clean) prefix or below it.
func HasPrefix(key, prefix string) bool {
	return prefix == "" || key == prefix || strings.HasPrefix(key, prefix) && key[len(prefix)] == '/'
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidKey, fmt.Sprintf(format, args...))
}
