// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"log/slog"
	"strings"
	"testing"
)

func TestShellWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text          string
		windows       bool
		word          string
		cannotBeShown bool
	}{
		{"sqlite:data.db", false, "sqlite:data.db", false},
		{"postgres://u@h:1/d", false, "postgres://u@h:1/d", false},
		{"postgres://u@h/d?a=b&c=d", false, "'postgres://u@h/d?a=b&c=d'", false},
		{"it's $HOME", false, `'it'\''s $HOME'`, false},
		{"", false, "''", false},
		{"~/x", false, "'~/x'", false},
		{"a\nb", false, "", true},
		{"a\x1b[31m", false, "", true},
		{`C:\x`, true, `C:\x`, false},
		{"a b&c", true, `"a b&c"`, false},
		{`a"b`, true, `"a"b"`, true},
		{"%PATH%", true, `"%PATH%"`, true},
	} {
		word, ok := wordOf(c.text, c.windows)
		if ok == c.cannotBeShown || ok && word != c.word {
			t.Errorf("%q: %s, %v", c.text, word, ok)
		}
	}
}

// TestSameStorage: a command that is proposed has no masked password in it, and
// names where the storage came from.
func TestSameStorage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, origin, source, want string }{
		{"postgres://u@h/d?a=b&c=d", "flag", "--storage", "x --storage 'postgres://u@h/d?a=b&c=d'"},
		{"postgres://u:geheim@h/d", "flag", "--storage", "x, with the same --storage"},
		{"sqlite:a\nb", "flag", "--storage", "x, with the same --storage"},
		{"postgres://u:geheim@h/d", "env", "EXTENDDB_STORAGE", "x, with EXTENDDB_STORAGE as it is"},
		{"postgres://u:geheim@h/d", "file", "my.toml", "x, with my.toml as it is"},
		{"sqlite:extenddb.db", "default", "", "x, in this directory"},
	} {
		v := values{"storage.url": {Value: c.url, Origin: c.origin, Source: c.source}}
		if got := v.sameStorage("x"); got != c.want && !strings.Contains(got, `"`) { // as Windows quotes
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
	}
}

// Not parallel: the environment is the process's. What a URL leaves out is told
// wherever the database is named.
func TestStorageIsResolved(t *testing.T) {
	for k, v := range map[string]string{"PGHOST": "db.example", "PGPORT": "", "PGUSER": "me", "PGDATABASE": "data", "PGPASSWORD": "geheim"} {
		t.Setenv(k, v)
	}
	for url, want := range map[string]string{
		"sqlite:a.db":                        "sqlite:a.db",
		"postgres:":                          "postgres: (database data, user me, at db.example:5432)",
		"postgres://u:p@h/d":                 "postgres://u:***@h/d",
		"postgres://u@h:5432/d?sslmode=x":    "postgres://u@h:5432/d?sslmode=x", // which cannot be used
		"postgres://u@h:5432/d?sslmode=":     "postgres://u@h:5432/d?sslmode=",
		"postgres://h/d?connect_timeout=1":   "postgres://h/d?connect_timeout=1 (database d, user me, at h:5432)",
		"postgres://u@h1:1,h2:2/d":           "postgres://u@h1:1,h2:2/d",
		"postgresql://u@/d?host=%2Fsockets":  "postgresql://u@/d?host=%2Fsockets (database d, user u, at /sockets:5432)",
		"postgres://u@h":                     "postgres://u@h (database data, user u, at h:5432)",
		"postgres://me@db.example:5432/data": "postgres://me@db.example:5432/data",
	} {
		if got := (values{"storage.url": {Value: url}}).storage(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestPlainLog(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := slog.New(plainLog{w: &text, level: slog.LevelWarn}).With("store", "x")
	log.Info("not told")
	log.Warn("a warning", "path", "a\nb", "n", 3)
	slog.New(plainLog{w: &text}).Error("bare")
	if want := "extenddb: warning: a warning (store=x, path=a\ufffdb, n=3)\nextenddb: error: bare\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}
