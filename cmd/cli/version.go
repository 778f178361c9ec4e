// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "version prints the version, the commit it was built from and that commit's date." + exitStatus("0    done", "2    wrong usage"),
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := a.Build.complete()
			return a.result("extenddb "+b.describe()+"\n", map[string]string{
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
	var of []string
	if b.Commit != "" && b.Commit != b.Version {
		of = append(of, "commit "+b.Commit)
	}
	if b.Date != "" {
		of = append(of, "of "+b.Date)
	}
	if len(of) == 0 {
		return b.Version
	}
	return b.Version + " (" + strings.Join(of, " ") + ")"
}
