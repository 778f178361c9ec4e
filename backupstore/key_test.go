// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"":                        "invalid key: key is empty",
		strings.Repeat("k", 1025): "invalid key: key is 1025 bytes; the maximum is 1024",
		strings.Repeat("ü", 600):  "invalid key: key is 1200 bytes; the maximum is 1024",
		"/":                       "invalid key: key has an empty component (leading, trailing, or doubled '/')",
		"/abs":                    "invalid key: key has an empty component (leading, trailing, or doubled '/')",
		"trail/":                  "invalid key: key has an empty component (leading, trailing, or doubled '/')",
		"dou//ble":                "invalid key: key has an empty component (leading, trailing, or doubled '/')",
		".":                       "invalid key: key component '.' is not allowed",
		"a/..":                    "invalid key: key component '..' is not allowed",
		`a\b/..`:                  "invalid key: key component contains a backslash",
		"a/\x1f":                  "invalid key: key component contains a control character",
		"a\u007f":                 "invalid key: key component contains a control character",
		"a\u009f":                 "invalid key: key component contains a control character",
		"a/\xc3":                  "invalid key: key component is not valid UTF-8",
	} {
		if err := CheckKey(key); !errors.Is(err, ErrInvalidKey) || err.Error() != want {
			t.Errorf("%q: %v, want %s", key, err, want)
		}
	}
	for _, key := range []string{"a", "...", "..a", "a..", ".a/b.", "a b", "%2F", "a\u00a0b", "𝄞", strings.Repeat("k", 1024)} {
		if err := CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestCleanPrefix(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": "", "a": "a", "a/": "a", "a/b/": "a/b", strings.Repeat("k", 1024) + "/": strings.Repeat("k", 1024),
	} {
		if got, err := CleanPrefix(prefix); got != want || err != nil {
			t.Errorf("%q: %q, %v", prefix, got, err)
		}
	}
	for prefix, want := range map[string]string{
		"/":     "invalid key: prefix consists only of a separator",
		"//":    "invalid key: key has an empty component (leading, trailing, or doubled '/')",
		"a//":   "invalid key: key has an empty component (leading, trailing, or doubled '/')",
		"a/../": "invalid key: key component '..' is not allowed",
	} {
		if _, err := CleanPrefix(prefix); !errors.Is(err, ErrInvalidKey) || err.Error() != want {
			t.Errorf("%q: %v, want %s", prefix, err, want)
		}
	}
}

func TestHasPrefix(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		key, prefix string
		want        bool
	}{
		{"a/b", "", true}, {"a/b", "a", true}, {"a/b", "a/b", true}, {"a/b/c", "a/b", true},
		{"a/bc", "a/b", false}, {"a", "a/b", false}, {"b/a", "a", false}, {"a-b", "a", false},
	} {
		if got := HasPrefix(x.key, x.prefix); got != x.want {
			t.Errorf("HasPrefix(%q, %q) = %v", x.key, x.prefix, got)
		}
	}
}

// FuzzKey: a key that passes is a path that stays where it is put.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "a/b", "../x", "a//b", "a/", `\`, "\x00", "\xff", "a/.../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := CheckKey(s)
		if err != nil && !errors.Is(err, ErrInvalidKey) {
			t.Fatalf("%q: %v", s, err)
		}
		if err == nil && (!fs.ValidPath(s) || s == "." || len(s) > maxKey || !utf8.ValidString(s)) {
			t.Fatalf("%q passes", s)
		}
		clean, prefixErr := CleanPrefix(s)
		switch {
		case err == nil && (prefixErr != nil || clean != s || !HasPrefix(s, clean) || !HasPrefix(s+"/x", clean) || HasPrefix(s+"x", clean)):
			t.Fatalf("key %q: prefix %q, %v", s, clean, prefixErr)
		case prefixErr == nil && clean != "" && CheckKey(clean) != nil:
			t.Fatalf("prefix %q becomes %q", s, clean)
		}
	})
}
