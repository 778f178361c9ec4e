// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
)

// setting is one thing an operator can choose: in the configuration file, in
// the environment or by a flag. The flag wins over the environment, that over
// the file, that over the default.
type setting struct {
	key    string // in the file: "server.listen"
	flag   string // "listen"; "": there is none
	def    string
	usage  string
	secret bool // masked when shown
	toggle bool // the flag alone means "true"
	check  func(string) error

	choices []string // all values, for completion; nil when there are many
}

// env is the environment variable: EXTENDDB_LISTEN for the flag "listen",
// EXTENDDB_BACKUP_MAX_LINE_BYTES for the key "backup.max_line_bytes" without one.
func (s setting) env() string {
	name := s.flag
	if name == "" {
		name = s.key
	}
	return "EXTENDDB_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// explained is the usage with all values, where they are few.
func (s setting) explained() string {
	if s.choices == nil {
		return s.usage
	}
	return s.usage + " (one of " + strings.Join(s.choices, ", ") + ")"
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

func (v values) quiet() bool { b, _ := strconv.ParseBool(v.text("output.quiet")); return b }

func (v values) integer(key string) int { n, _ := strconv.Atoi(v.text(key)); return n }

// addFlags registers --config and the flags of the settings named: by key, or
// by a section that ends in a dot.
func addFlags(cmd *cobra.Command, names ...string) {
	cmd.Flags().String("config", "", "configuration file (default "+defaultConfigFile+" when it exists)")
	_ = cmd.RegisterFlagCompletionFunc("config", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault // a file
	})
	for _, s := range allSettings() {
		if s.flag == "" || !slices.ContainsFunc(names, func(name string) bool {
			return s.key == name || strings.HasSuffix(name, ".") && strings.HasPrefix(s.key, name)
		}) {
			continue
		}
		usage := fmt.Sprintf("%s [%s, %s]", s.explained(), s.env(), s.key)
		if s.toggle {
			cmd.Flags().Bool(s.flag, false, usage)
		} else {
			cmd.Flags().String(s.flag, s.def, usage)
		}
		if len(s.choices) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(s.flag, cobra.FixedCompletions(s.choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// resolve works out the effective settings of a command. Those it does not use
// are checked too: a mistake shows at once, not when another command runs.
func (a *App) resolve(cmd *cobra.Command) (values, error) {
	settings := allSettings()
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
	out := values{}
	defer func() { a.warnUnknown(env, settings, out) }() // in the form that they ask for
	for _, s := range settings {
		v := value{Key: s.key, Value: s.def, Origin: "default"}
		if text, ok := file[s.key]; ok {
			v = value{s.key, text, "file", path}
		}
		if text, ok := env[s.env()]; ok {
			v = value{s.key, text, "env", s.env()}
		}
		if f := cmd.Flag(s.flag); f != nil && f.Changed {
			v = value{s.key, f.Value.String(), "flag", "--" + s.flag}
		}
		check := s.check
		if s.choices != nil {
			check = oneOf(s.choices...)
		}
		if err := check(v.Value); err != nil {
			shown := v.Value
			if s.secret {
				shown = maskPassword(shown)
			}
			return nil, usagef("%s %q: %w", cmpOr(v.Source, s.key), shown, err).
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
func (a *App) warnUnknown(env map[string]string, settings []setting, v values) {
	known := []string{"EXTENDDB_CONFIG", "EXTENDDB_OUTPUT"}
	for _, s := range settings {
		known = append(known, s.env())
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if slices.Contains(known, name) || strings.HasPrefix(name, "EXTENDDB_TEST_") {
			continue
		}
		text := fmt.Sprintf("environment variable %s is not a setting%s", name, nearest(name, known))
		a.warn(text, v.text("log.format") == "json")
	}
}
