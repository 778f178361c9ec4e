// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Misused is a *Refused whose reason is what the connection string, a PG*
// variable or a file of theirs says.
type Misused struct {
	*Refused
	Parameter string // the name that nobody knows; "": something else
}

// Unwrap returns the *Refused.
func (e *Misused) Unwrap() error { return e.Refused }

const stringRemedy = "it is postgres://USER@HOST:PORT/DATABASE?PARAMETER=VALUE; docs/postgresql.md lists parameters"

func misused(reason string) *Misused {
	return &Misused{Refused: &Refused{"the connection string cannot be used: " + reason, stringRemedy}}
}

// variables are those of libpq that hold what may be wrong, by parameter. None
// of them is secret.
func variables() map[string]string {
	return map[string]string{
		"port": "PGPORT", "connect_timeout": "PGCONNECT_TIMEOUT", "sslmode": "PGSSLMODE", "sslcertmode": "PGSSLCERTMODE",
		"sslrootcert": "PGSSLROOTCERT", "sslnegotiation": "PGSSLNEGOTIATION", "target_session_attrs": "PGTARGETSESSIONATTRS",
		"min_protocol_version": "PGMINPROTOCOLVERSION", "max_protocol_version": "PGMAXPROTOCOLVERSION",
		"channel_binding": "PGCHANNELBINDING", "require_auth": "PGREQUIREAUTH", "service": "PGSERVICE",
		"timezone": "PGTZ", "options": "PGOPTIONS", "application_name": "PGAPPNAME",
	}
}

// Parameters are the names that a connection string may have in it, beside
// settings of the database server.
func Parameters() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(variables())), []string{
		"host", "dbname", "user", "password", "passfile", "sslcert", "sslkey", "sslpassword", "sslsni", "servicefile", "search_path",
		"pool_max_conns", "pool_min_conns", "pool_max_conn_lifetime", "pool_max_conn_idle_time", "pool_health_check_period",
		"pool_max_conn_lifetime_jitter", "statement_cache_capacity", "description_cache_capacity", "default_query_exec_mode",
	})))
}

// unsecret keeps the part of an error about a connection string that cannot
// hold a piece of it: the string holds the password, and where its syntax is
// wrong, nobody can tell where. What a variable says is told with its name.
func unsecret(text string, err error) error {
	var e *pgconn.ParseConfigError
	if !errors.As(err, &e) {
		return misused("it cannot be understood")
	}
	shown := *e
	shown.ConnString = ""
	why := strings.TrimPrefix(shown.Error(), "cannot parse ``: ")
	if inner := e.Unwrap(); inner != nil && (strings.HasPrefix(why, "failed to parse as") || strings.HasPrefix(why, "invalid port")) {
		why = strings.TrimSuffix(why, " ("+inner.Error()+")")
	}
	if name := parameterOf(why); name != "" && !mentions(text, name) {
		if m := fromVariable(name, why); m != nil {
			return m
		}
	}
	return misused(oneLine(why))
}

// parameterOf is the parameter that an error of the driver is about; "" when it
// does not tell.
func parameterOf(why string) string {
	if strings.Contains(why, "CA file") {
		return "sslrootcert"
	}
	best := ""
	for name := range variables() {
		if strings.Contains(why, name) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

// mentions reports whether a connection string itself says what a parameter is.
func mentions(text, name string) bool {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return strings.Contains(text, name)
	}
	u, err := url.Parse(text)
	return err != nil || u.Query().Has(name) || name == "port" && strings.Contains(u.Host, ":")
}

// fromVariable blames the variable of a parameter; nil when it is not set.
func fromVariable(name, why string) *Misused {
	variable := variables()[name]
	value := os.Getenv(variable)
	if value == "" {
		return nil
	}
	return &Misused{Refused: &Refused{fmt.Sprintf("the variable %s is %q: %s", variable, value, oneLine(why)), "correct it, or unset it"}}
}

// misusedBy says what a database server that refuses a connection does not like
// about its settings; nil when it is not that.
func misusedBy(cfg *pgconn.Config, pg *pgconn.PgError) *Misused {
	const (
		unknown     = "42704"
		badValue    = "22023"
		cannotSet   = "55P02"
		badOptions  = "42601"
		ofThePooler = "08P01"
	)
	switch pg.Code {
	case unknown, badValue, cannotSet, badOptions:
	case ofThePooler:
		if !strings.Contains(pg.Message, "startup parameter") {
			return nil
		}
	default:
		return nil
	}
	name := "" // the message may be in any language
	for _, key := range slices.Sorted(maps.Keys(cfg.RuntimeParams)) {
		if strings.Contains(strings.ToLower(pg.Message), strings.ToLower(key)) && len(key) > len(name) {
			name = key
		}
	}
	if name == "" && cfg.RuntimeParams["options"] != "" {
		name = "options"
	}
	if name != "" && os.Getenv(variables()[name]) == cfg.RuntimeParams[name] {
		if m := fromVariable(name, pg.Message); m != nil {
			return m
		}
	}
	m := misused(oneLine(pg.Message))
	if name != "options" && pg.Code != badValue && pg.Code != cannotSet {
		m.Parameter = name
	}
	return m
}

// exposed is the password file that others can read, where the password comes
// from it; "" when there is none. libpq ignores such a file.
func exposed(text string, cfg *pgconn.Config) string {
	if cfg.Password == "" || os.Getenv("PGPASSWORD") != "" || runtime.GOOS == "windows" {
		return ""
	}
	path := os.Getenv("PGPASSFILE")
	u, err := url.Parse(text)
	if err != nil { // a host that is a path: nobody knows where the password comes from
		return ""
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return ""
	}
	if named := u.Query().Get("passfile"); named != "" {
		path = named
	}
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		path = filepath.Join(home, ".pgpass")
	}
	const others fs.FileMode = 0o077
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&others == 0 {
		return ""
	}
	return path
}
