// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// readConfig reads the file's settings as texts. A file that was not asked for
// by name may be absent.
func readConfig(path string, explicit bool, settings []setting) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("configuration file: %w", err).hint("this writes one: extenddb config init --config %s", shown(path, "FILE"))
	}
	if err != nil {
		return nil, usagef("configuration file: %w", err).hint("name a readable file with --config")
	}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return nil, usagef("configuration file %s:%d:%d: %w", path, line, column, err).hint("%s", hintForLine(data, line))
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

// hintForLine tells what to do about a line that is no TOML.
func hintForLine(data []byte, line int) string {
	all := strings.Split(string(data), "\n")
	if line > len(all) {
		return tomlHint
	}
	key, text, ok := strings.Cut(all[line-1], "=")
	text = strings.TrimSpace(text)
	if !ok || text == "" || strings.ContainsAny(text, `"'`) {
		return tomlHint
	}
	return fmt.Sprintf("put the value in quotes: %s = %q", strings.TrimSpace(key), text)
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
	if parts := strings.Split(name, "."); len(parts) > 2 { // a key in a section within its own
		if outer := parts[0] + "." + parts[len(parts)-1]; slices.Contains(candidates, outer) {
			return fmt.Sprintf(" (did you mean %s?)", outer)
		}
	}
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
