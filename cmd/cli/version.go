// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := a.Build.complete()
			return a.result(fmt.Sprintf("extenddb %s\n", b.describe()), map[string]string{
				"version": b.Version, "commit": b.Commit, "date": b.Date,
				"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
			})
		},
	}
}

// complete fills in what the linker did not stamp from what Go recorded, as
// for a binary that "go install" built.
func (b Build) complete() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		}
	}
	b.Version = cmp.Or(b.Version, "dev")
	return b
}

func (b Build) describe() string {
	b = b.complete()
	return strings.TrimSpace(strings.Join([]string{b.Version, b.Commit, b.Date}, " "))
}
