// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestSettingsAreConsistent: names are unique, sections stay together, and
// defaults are allowed.
func TestSettingsAreConsistent(t *testing.T) {
	t.Parallel()
	seen, sections, last := map[string]bool{}, map[string]bool{}, ""
	for _, s := range allSettings() {
		for _, name := range []string{s.key, s.env(), "--" + s.flag} {
			if seen[name] && name != "--" {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		section := s.key[:strings.LastIndexByte(s.key, '.')]
		if section != last && sections[section] {
			t.Errorf("section %s is torn apart by %s", section, last)
		}
		sections[section], last = true, section
		check := s.check
		if s.choices != nil {
			check = oneOf(s.choices...)
		}
		if err := check(s.def); err != nil {
			t.Errorf("%s: default %q: %v", s.key, s.def, err)
		}
	}
}

// TestConfigTemplateIsAccepted: with every line of settings made active, the
// file that config init writes says what the defaults say.
func TestConfigTemplateIsAccepted(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile(`(?m)^# ([a-z_]+ = )`).ReplaceAllString(configTemplate(allSettings()), "$1")
	path := filepath.Join(t.TempDir(), "all.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := readConfig(path, true, allSettings())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range allSettings() {
		if got, ok := file[s.key]; !ok || got != s.def {
			t.Errorf("%s = %q, %v; want the default %q", s.key, got, ok, s.def)
		}
	}
}

// TestHelpNamesExitCodes: every command's help ends in its exit codes, in
// order, 0 and 2 among them.
func TestHelpNamesExitCodes(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.Root() == cmd || cmd.Name() == "completion" || cmd.Parent().Name() == "completion" || cmd.Name() == "help" {
			return
		}
		_, status, ok := strings.Cut(cmd.Long, "EXIT STATUS\n")
		if !ok {
			t.Errorf("%s names no exit codes", cmd.CommandPath())
		}
		last, codes := -1, map[int]bool{}
		for _, line := range strings.Split(strings.TrimRight(status, "\n"), "\n") {
			code := 0
			for _, r := range strings.Fields(line)[0] {
				code = 10*code + int(r-'0')
			}
			if code <= last {
				t.Errorf("%s: exit code %d after %d", cmd.CommandPath(), code, last)
			}
			last, codes[code] = code, true
		}
		if !codes[exitOK] || !codes[exitUsage] {
			t.Errorf("%s: exit codes %v", cmd.CommandPath(), codes)
		}
	}
	visit((&App{Stdout: io.Discard, Stderr: io.Discard}).root())
}

// TestEverySettingHasACommand: a flag that no command registers could never be
// given.
func TestEverySettingHasACommand(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		for _, s := range allSettings() {
			if cmd.Name() != "show" && cmd.Flags().Lookup(s.flag) != nil { // config show has all
				used[s.flag] = true
			}
		}
	}
	visit((&App{Stdout: io.Discard, Stderr: io.Discard}).root())
	for _, s := range allSettings() {
		if s.flag != "" && !used[s.flag] {
			t.Errorf("--%s belongs to no command", s.flag)
		}
	}
}

func TestStoreURL(t *testing.T) {
	t.Parallel()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ store, path, want, fails string }{
		{},
		{store: "file:///srv/backups", want: "file:///srv/backups"},
		{store: "file:/srv/backups/", want: "file:///srv/backups"},
		{store: "file:b", want: "file://" + wd + "/b"},
		{store: "file:../b c", want: "file://" + filepath.Dir(wd) + "/b%20c"},
		{store: "file:///srv/50%25", want: "file:///srv/50%25"},
		{store: "file:///srv/b", path: "/other", want: "file:///srv/b"},
		{store: "filesystem", path: "/srv/b", want: "file:///srv/b"},
		{path: "/srv/a?b#c", want: "file:///srv/a%3Fb%23c"},
		{path: "b", want: "file://" + wd + "/b"},
		{store: "filesystem", fails: `[backup.filesystem] with a path is required when store = "filesystem"`},
	} {
		v := values{"backup.store": {Value: c.store}, "backup.filesystem.path": {Value: c.path}}
		got, err := storeURL(v)
		if got != c.want || (err != nil) != (c.fails != "") || err != nil && err.Error() != c.fails {
			t.Errorf("store %q, path %q: %q, %v; want %q %s", c.store, c.path, got, err, c.want, c.fails)
		}
	}
}

func TestCheckStoreRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/srv/backups":          "file:///srv/backups",
		"s3":                    "not available in this version",
		"s3://bucket/x":         "not available in this version",
		"ftp://host/x":          `"ftp"`,
		"file:":                 "no directory",
		"file://srv/backups":    "three slashes",
		"file:///a?b=c":         "query",
		"file:///a%":            "%25",
		"file:///a%1b":          "control character",
		"file:///a\nb":          "control character",
		"file:~/backups":        "only a shell knows ~",
		"file:///~/backups":     "only a shell knows ~",
		"file:///a%00b":         "NUL",
		strings.Repeat("x", 10): "file:xxxxxxxxxx",
	} {
		if err := checkStore(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a text with %q", text, err, want)
		}
	}
}

// TestQuietLeavesErrors: --quiet silences what went well.
func TestQuietLeavesErrors(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	app := &App{Stdout: &stdout, Stderr: &stderr}
	code := app.Run(t.Context(), []string{"backup", "list", "--quiet", "--store", fileURL(filepath.Join(t.TempDir(), "absent"))})
	if code != exitNotFound || stdout.Len() > 0 || !strings.Contains(stderr.String(), "hint: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}
