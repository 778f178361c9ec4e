// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *App) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write or show the configuration",
		Long: "A setting can be given by a flag, by an environment variable or in the\n" +
			"configuration file; the flag wins over the variable, that over the file." +
			exitStatus("0    done", "2    wrong usage"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Show the effective settings and where each comes from",
		Long: "show prints what the commands would use with the same flags, environment and\n" +
			"file. Passwords are masked." + exitStatus("0    done", "2    wrong usage or configuration"),
		Args: noArgs,
		RunE: a.configShow,
	}
	addFlags(show, configFlags()...)
	init := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration file with every setting at its default",
		Long: "init writes a commented " + defaultConfigFile + " (or --config FILE). It never overwrites one." +
			exitStatus("0    done", "1    failed", "2    wrong usage", "13   refused: the file exists"),
		Args: noArgs,
		RunE: a.configInit,
	}
	init.Flags().String("config", defaultConfigFile, "file to write")
	cmd.AddCommand(init, show)
	return cmd
}

func (a *App) configShow(cmd *cobra.Command, _ []string) error {
	settings := allSettings()
	v, err := a.resolve(cmd)
	if err != nil {
		return err
	}
	if _, _, err := listenAddr(v); err != nil {
		a.warn("serve would refuse: "+err.Error(), v.text("log.format") == "json")
	}
	list := make([]value, 0, len(settings))
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		e := v[s.key]
		if s.secret {
			e.Value = maskPassword(e.Value)
		}
		list = append(list, e)
		fmt.Fprintf(w, "%s\t= %q\t# %s\n", e.Key, e.Value, strings.TrimSpace(e.Origin+" "+e.Source))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.result(text.String(), list)
}

func (a *App) configInit(cmd *cobra.Command, _ []string) error {
	path := cmd.Flag("config").Value.String()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return (&Error{Code: exitRefused, Err: fmt.Errorf("%s exists", path)}).
			hint("write another file with --config FILE, or remove it first")
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(configTemplate(allSettings()))
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return a.result("wrote "+path+"\n", map[string]string{"path": path})
}

// configTemplate is a file that spells out every default, commented out.
func configTemplate(settings []setting) string {
	var b strings.Builder
	b.WriteString("# Settings of extenddb. A flag wins over an environment variable, that over this file.\n")
	section := ""
	for _, s := range settings {
		dot := strings.LastIndexByte(s.key, '.')
		if sec := s.key[:dot]; sec != section {
			section = sec
			fmt.Fprintf(&b, "\n[%s]\n", section)
		}
		names := s.env()
		if s.flag != "" {
			names = "--" + s.flag + ", " + names
		}
		fmt.Fprintf(&b, "# %s (%s)\n# %s = %q\n", s.explained(), names, s.key[dot+1:], s.def)
	}
	return b.String()
}
