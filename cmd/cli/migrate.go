// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/migrate"
	"github.com/extenddb/extenddb/server/storage/postgres"
	"github.com/extenddb/extenddb/server/storage/sqlite"
)

func (a *App) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring a database to the version of this program",
		Long: "migrate carries out the steps that lead from the version of a database to that of\n" +
			"this program, each in a transaction: one that is killed is completed by the next\n" +
			"run. It asks on a terminal, and elsewhere wants --yes. There is no way back but a\n" +
			"copy: of a SQLite file it keeps one beside it, before it changes anything. Of a\n" +
			"PostgreSQL database make one first (pg_dump), and stop all its servers: those that\n" +
			"are still there, and another migration, are waited for as --lock-wait says, and\n" +
			"named. A SQLite file must be free even to be looked at: that is waited for in every\n" +
			"form of the command. An empty PostgreSQL database is initialised. A SQLite file is\n" +
			"migrated by serve as well." +
			exitStatus("0    done, or nothing to do", "1    failed", "2    wrong usage or configuration",
				"3    of --dry-run: there are steps to carry out", "10   the database does not exist",
				"11   servers or a migration are in the way, or PostgreSQL cannot be reached; try later",
				"12   permission denied: the role or the user may not do it",
				"13   refused: not confirmed, no room for the copy, or a database that is not fit for it",
				"130  interrupted"),
		Example: "  extenddb migrate --storage postgres://extenddb@db.example/extenddb --dry-run\n" +
			"  extenddb migrate --storage postgres://extenddb@db.example/extenddb --yes --lock-wait 2m",
		Args: noArgs,
		RunE: a.migrate,
	}
	cmd.Flags().Bool("dry-run", false, "tell what there is to do, and do nothing: exit code 3 when there is something, 0 otherwise")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.Flags().Bool("no-copy", false, "keep no copy of a SQLite file: there must be one elsewhere")
	cmd.Flags().Duration("lock-wait", 30*time.Second, "how long to wait for servers of the database, or another migration, to end; 0: not at all")
	addFlags(cmd, migrateFlags()...)
	return cmd
}

// migration is the JSON result of migrate.
type migration struct {
	Storage  string          `json:"storage"`         // URL without password
	Hosts    []string        `json:"hosts,omitempty"` // of PostgreSQL, what the URL leads to
	Database string          `json:"database,omitempty"`
	User     string          `json:"user,omitempty"`
	From     int             `json:"from"` // 0: an empty database
	To       int             `json:"to"`
	Steps    []migrationStep `json:"steps"` // that were pending
	DryRun   bool            `json:"dry_run"`
	Migrated bool            `json:"migrated"` // they were carried out
	Copy     *string         `json:"copy"`     // file that holds the database as it was
	Seconds  float64         `json:"seconds"`
}

type migrationStep struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
}

func (a *App) migrate(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	v, err := a.resolve(cmd)
	if err != nil {
		return err
	}
	m, err := a.migrator(v, cmd)
	if err != nil {
		return err
	}
	yes, _ := cmd.Flags().GetBool("yes")
	dry, _ := cmd.Flags().GetBool("dry-run")
	if dry || !yes {
		p, err := m.plan(ctx)
		if err != nil {
			return err
		}
		if dry || len(p.Steps) == 0 {
			return a.planned(v, p, dry)
		}
		if err := a.confirm(ctx, m.question(p)); err != nil {
			return err
		}
	}
	began := clock.Real{}.Now()
	done, err := m.migrate(ctx)
	if err != nil {
		return err
	}
	out := newMigration(v, done.Plan)
	out.Migrated = len(done.Plan.Steps) > 0
	out.Seconds = clock.Real{}.Now().Sub(began).Seconds()
	text := upToDate(v, done.Plan)
	if out.Migrated {
		text = fmt.Sprintf("migrated %s from version %d to %d\n", v.storage(), done.Plan.From, done.Plan.To)
		if done.Plan.From == 0 {
			text = fmt.Sprintf("new database %s: it was empty, and was initialised with version %d\n", v.storage(), done.Plan.To)
		}
	}
	if done.Copy != "" {
		out.Copy = &done.Copy
		text += fmt.Sprintf("the database as it was is kept: %s; remove it when the new version proves itself\n", done.Copy)
	}
	if a.output == "text" && v.quiet() {
		return nil
	}
	return a.result(text, out)
}

func newMigration(v values, p migrate.Plan) migration {
	t, _ := v.target()
	m := migration{Storage: v.masked(), Hosts: t.Hosts, Database: t.Database, User: t.User, From: p.From, To: p.To, Steps: []migrationStep{}}
	for _, s := range p.Steps {
		m.Steps = append(m.Steps, migrationStep{s.Version, s.Name})
	}
	return m
}

func upToDate(v values, p migrate.Plan) string {
	return fmt.Sprintf("%s is up to date: version %d\n", v.storage(), p.To)
}

// planned tells of a plan that is not carried out.
func (a *App) planned(v values, p migrate.Plan, dry bool) error {
	out := newMigration(v, p)
	out.DryRun = dry
	text := upToDate(v, p)
	if len(p.Steps) > 0 {
		text = stepsText(v, p)
	}
	if a.output == "json" || !v.quiet() {
		if err := a.result(text, out); err != nil {
			return err
		}
	}
	if len(p.Steps) == 0 {
		return nil
	}
	return (&Error{Code: exitIncomplete, Err: errors.New(plural(int64(len(p.Steps)), "migration is pending", "migrations are pending"))}).
		hint("to carry it out, run the same command with --yes instead of --dry-run")
}

func stepsText(v values, p migrate.Plan) string {
	var text strings.Builder
	if p.From == 0 {
		fmt.Fprintf(&text, "%s is empty; it will be initialised with version %d:\n", v.storage(), p.To)
	} else {
		fmt.Fprintf(&text, "%s is of version %d; to version %d:\n", v.storage(), p.From, p.To)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&text, "%4d  %s\n", s.Version, s.Name)
	}
	return text.String()
}

// migrator is what migrate does, for one engine.
type migrator struct {
	plan     func(ctx context.Context) (migrate.Plan, error)
	migrate  func(ctx context.Context) (migrate.Done, error)
	question func(p migrate.Plan) string
}

func (a *App) migrator(v values, cmd *cobra.Command) (migrator, error) {
	d, err := v.database()
	if err != nil {
		return migrator{}, err
	}
	o := a.migrateOptions(v)
	o.NoCopy, _ = cmd.Flags().GetBool("no-copy")
	if o.LockWait, _ = cmd.Flags().GetDuration("lock-wait"); o.LockWait < 0 {
		return migrator{}, usagef("--lock-wait %s: must not be negative", o.LockWait)
	}
	log := a.commandLog(v)
	switch {
	case d.memory():
		return migrator{}, usagef("--storage %s: a database in memory is never of an older version", v.text("storage.url")).
			hint("name a file with --storage sqlite:FILE")
	case d.backend == backendPostgres && o.NoCopy:
		return migrator{}, usagef("--no-copy is for SQLite: of PostgreSQL no copy is made")
	case d.backend == backendPostgres:
		return postgresMigrator(v, postgresOptions(v, d, a.Build.complete().Version, log), o), nil
	}
	return sqliteMigrator(v, d, sqliteOptions(v, d, log), o), nil
}

func postgresMigrator(v values, o postgres.Options, m migrate.Options) migrator {
	return migrator{
		plan: func(ctx context.Context) (migrate.Plan, error) {
			p, err := postgres.Plan(ctx, o)
			if err != nil {
				err = postgresError(v, err)
			}
			o.Log = slog.New(slog.DiscardHandler) // what there is to warn of was told
			return p, err
		},
		migrate: func(ctx context.Context) (migrate.Done, error) {
			done, err := postgres.Migrate(ctx, o, m)
			if err != nil {
				err = postgresError(v, err)
			}
			return done, err
		},
		question: func(p migrate.Plan) string {
			if p.From == 0 {
				return stepsText(v, p) + "initialise it?"
			}
			return stepsText(v, p) + "no copy is made: there is no way back but a dump of yours; migrate?"
		},
	}
}

func sqliteMigrator(v values, d database, o sqlite.Options, m migrate.Options) migrator {
	return migrator{
		plan: func(ctx context.Context) (p migrate.Plan, err error) {
			if err = thereIs(d.path); err != nil {
				return p, err
			}
			if p, err = sqlite.Plan(ctx, o, m); err != nil {
				err = migrateError(d.path, err)
			}
			return p, err
		},
		migrate: func(ctx context.Context) (done migrate.Done, err error) {
			if err = thereIs(d.path); err != nil {
				return done, err
			}
			if done, err = sqlite.Migrate(ctx, o, m); err != nil {
				err = migrateError(d.path, err)
			}
			return done, err
		},
		question: func(p migrate.Plan) string {
			kept := fmt.Sprintf("a copy, %s.v%d-backup, is made first; ", d.path, p.From)
			if m.NoCopy {
				kept = "no copy is made: there is no way back; "
			}
			return stepsText(v, p) + kept + "migrate?"
		},
	}
}

// migrateError is openError for who may wait.
func migrateError(path string, err error) error {
	switch {
	case errors.Is(err, storage.ErrLocked):
		return (&Error{Code: exitBusy, Err: err}).
			hint("stop that server, or wait for that command; --lock-wait waits longer")
	case errors.Is(err, context.Canceled):
		return err
	}
	return openError(path, err)
}

// migrateOptions tells of what goes on, on stderr.
func (a *App) migrateOptions(v values) migrate.Options {
	if v.quiet() {
		return migrate.Options{}
	}
	tell := func(text string, members map[string]any) {
		if a.output == "json" {
			_ = json.NewEncoder(a.Stderr).Encode(members)
			return
		}
		fmt.Fprintf(a.Stderr, "migrate: %s\n", printable(text))
	}
	return migrate.Options{
		Waiting: func(holder string) {
			tell("waiting for "+holder, map[string]any{"message_type": "migration", "state": "waiting", "waiting_for": holder})
		},
		Report: func(s migrate.Step, i, n int) {
			tell(fmt.Sprintf("step %d of %d: version %d, %s", i, n, s.Version, s.Name), map[string]any{
				"message_type": "migration", "state": "running", "step": i, "steps": n, "version": s.Version, "name": s.Name,
			})
		},
	}
}
