// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
)

// setting is one thing an operator can choose: in the configuration file, in
// the environment or by a flag. The flag wins over the environment, that over
// the file, that over the default.
type setting struct {
	key    string // in the file: "server.listen"
	flag   string // "listen"; the environment variable is EXTENDDB_LISTEN
	def    string
	usage  string
	secret bool // masked when shown
	check  func(string) error

	choices []string // all values, for completion; nil when there are many
}

func (s setting) env() string {
	return "EXTENDDB_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}

// serveSettings are those of extenddb serve.
func serveSettings() []setting {
	return []setting{
		{key: "server.listen", flag: "listen", def: "127.0.0.1:8000", check: checkAddr,
			usage: "address to serve on; must be a loopback address"},
		{key: "server.insecure_listen", flag: "insecure-listen", def: "", check: optional(checkAddr),
			usage: "serve on this address instead, even when others can reach it without authentication"},
		{key: "server.region", flag: "region", def: "us-east-1", check: checkRegion,
			usage: "region in ARNs"},
		{key: "server.drain", flag: "drain", def: "10s", check: checkDuration,
			usage: "how long running requests may take to finish when the server stops"},
		{key: "server.memory_budget", flag: "memory-budget", def: "256MiB", check: checkBudget,
			usage: "bytes that request and response bodies in flight may take together"},
		{key: "storage.url", flag: "storage", def: "sqlite:extenddb.db", check: checkStorage, secret: true,
			usage: "where the data is: sqlite:FILE, sqlite:///absolute/FILE or sqlite::memory:"},
		{key: "storage.sqlite.synchronous", flag: "sqlite-synchronous", def: "full", choices: []string{"full", "normal"},
			usage: "full survives power loss; normal survives only the end of the process"},
		{key: "storage.sqlite.readers", flag: "sqlite-readers", def: "0", check: checkReaders,
			usage: "reading connections; 0: two per processor, 4 to 8"},
		{key: "storage.sqlite.mmap_size", flag: "sqlite-mmap-size", def: "0", check: checkBytes,
			usage: "bytes of the file to map into memory; an I/O error under a map ends the process"},
		{key: "log.level", flag: "log-level", def: "info", choices: []string{"debug", "info", "warn", "error"},
			usage: "least level to log"},
		{key: "log.format", flag: "log-format", def: "text", choices: []string{"text", "json"},
			usage: "form of log lines"},
	}
}

const defaultConfigFile = "extenddb.toml"

// value is an effective setting with where it comes from.
type value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, env, file, default
	Source string `json:"source"` // "--listen", "EXTENDDB_LISTEN", the file's name; "" for a default
}

// values are the effective settings, by key.
type values map[string]value

func (v values) text(key string) string { return v[key].Value }

func (v values) duration(key string) time.Duration { d, _ := time.ParseDuration(v.text(key)); return d }

func (v values) bytes(key string) int64 { n, _ := humanize.ParseBytes(v.text(key)); return int64(n) }

func (v values) integer(key string) int { n, _ := strconv.Atoi(v.text(key)); return n }

// addFlags registers a flag for every setting, and --config.
func addFlags(cmd *cobra.Command, settings []setting) {
	cmd.Flags().String("config", "", "configuration file (default "+defaultConfigFile+" when it exists)")
	for _, s := range settings {
		cmd.Flags().String(s.flag, s.def, fmt.Sprintf("%s [%s, %s]", s.usage, s.env(), s.key))
		if len(s.choices) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(s.flag, cobra.FixedCompletions(s.choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// resolve works out the effective settings of a command.
func (a *App) resolve(cmd *cobra.Command, settings []setting) (values, error) {
	env := environment(a.Environ)
	path, explicit := cmd.Flag("config").Value.String(), cmd.Flag("config").Changed
	if !explicit && env["EXTENDDB_CONFIG"] != "" {
		path, explicit = env["EXTENDDB_CONFIG"], true
	}
	if path == "" {
		path = defaultConfigFile
	}
	file, err := readConfig(path, explicit, settings)
	if err != nil {
		return nil, err
	}
	a.warnUnknown(env, settings)
	out := values{}
	for _, s := range settings {
		v := value{Key: s.key, Value: s.def, Origin: "default"}
		if text, ok := file[s.key]; ok {
			v = value{s.key, text, "file", path}
		}
		if text, ok := env[s.env()]; ok {
			v = value{s.key, text, "env", s.env()}
		}
		if f := cmd.Flag(s.flag); f.Changed {
			v = value{s.key, f.Value.String(), "flag", "--" + s.flag}
		}
		check := s.check
		if s.choices != nil {
			check = oneOf(s.choices...)
		}
		if err := check(v.Value); err != nil {
			return nil, usagef("%s %q: %w", cmpOr(v.Source, s.key), v.Value, err).
				hint("%s: %s", s.key, s.usage)
		}
		out[s.key] = v
	}
	return out, nil
}

func cmpOr(source, key string) string {
	if strings.HasPrefix(source, "--") || strings.HasPrefix(source, "EXTENDDB_") {
		return source
	}
	return strings.TrimSpace(source + " " + key)
}

func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, e := range environ {
		// Set but empty counts as not set, as container files often have it.
		if name, v, _ := strings.Cut(e, "="); v != "" && strings.HasPrefix(name, "EXTENDDB_") {
			env[name] = v
		}
	}
	return env
}

// warnUnknown names variables that look like ours and are not: a typo there
// would otherwise be silent.
func (a *App) warnUnknown(env map[string]string, settings []setting) {
	known := []string{"EXTENDDB_CONFIG", "EXTENDDB_OUTPUT"}
	for _, s := range settings {
		known = append(known, s.env())
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "EXTENDDB_TEST_") {
			fmt.Fprintf(a.Stderr, "extenddb: warning: environment variable %s is not a setting%s\n", name, nearest(name, known))
		}
	}
}

// readConfig reads the file's settings as texts. A file that was not asked for
// by name may be absent.
func readConfig(path string, explicit bool, settings []setting) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("configuration file: %w", err).hint("%q writes one", "extenddb config init --config "+path)
	}
	if err != nil {
		return nil, usagef("configuration file: %w", err).hint("name a readable file with --config")
	}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return nil, usagef("configuration file %s:%d:%d: %w", path, line, column, err).hint(tomlHint)
		}
		return nil, usagef("configuration file %s: %w", path, err).hint(tomlHint)
	}
	flat := map[string]string{}
	if err := flatten(flat, "", tree); err != nil {
		return nil, usagef("configuration file %s: %w", path, err).hint(tomlHint)
	}
	var keys []string
	for _, s := range settings {
		keys = append(keys, s.key)
	}
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		if !slices.Contains(keys, key) {
			return nil, usagef("configuration file %s: unknown key %q%s", path, key, nearest(key, keys)).
				hint("%q lists all keys", "extenddb config show")
		}
	}
	return flat, nil
}

const tomlHint = "the file is TOML: [section] and key = \"value\"; \"extenddb config init --config FILE\" writes an example"

func flatten(out map[string]string, prefix string, tree map[string]any) error {
	for name, v := range tree {
		switch v := v.(type) {
		case map[string]any:
			if err := flatten(out, prefix+name+".", v); err != nil {
				return err
			}
		case string:
			out[prefix+name] = v
		case int64, bool:
			out[prefix+name] = fmt.Sprint(v)
		default:
			return fmt.Errorf("key %q: a string, an integer or a boolean is expected", prefix+name)
		}
	}
	return nil
}

// nearest suggests the candidate that differs least from name, if any is near.
func nearest(name string, candidates []string) string {
	best, distance := "", 4
	for _, c := range candidates {
		if strings.HasSuffix(c, "."+name) { // a key outside its section
			return fmt.Sprintf(" (did you mean %s?)", c)
		}
		if d := editDistance(name, c); d < distance && d < len(name) {
			best, distance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func optional(check func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	}
}

func oneOf(choices ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(choices, s) {
			return fmt.Errorf("must be one of %s", strings.Join(choices, ", "))
		}
		return nil
	}
}

func checkAddr(s string) error {
	_, port, err := splitAddr(s)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	} else if n == 0 {
		return nil // any free port
	}
	return nil
}

func checkRegion(s string) error {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`).MatchString(s) {
		return errors.New("must be lower-case letters, digits and hyphens, as in us-east-1")
	}
	return nil
}

func checkDuration(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("must be a duration above 0, such as 10s or 1m30s")
	}
	return nil
}

func checkBytes(s string) error {
	if n, err := humanize.ParseBytes(s); err != nil || n > 1<<62 {
		return errors.New("must be a number of bytes such as 64MiB")
	}
	return nil
}

// minBudget lets one largest request and one largest page through.
const minBudget = 64 << 20

func checkBudget(s string) error {
	if n, err := humanize.ParseBytes(s); err != nil || n < minBudget || n > 1<<50 {
		return errors.New("must be a number of bytes of at least 64MiB")
	}
	return nil
}

func checkReaders(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n > 64 {
		return errors.New("must be a number from 0 to 64")
	}
	return nil
}

// isLoopback reports whether only this machine can reach host.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
