// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/extenddb/extenddb/server/storage"
)

// Why a connection was not made, where it is not the network.
var (
	// ErrNoTLS: the server offers no TLS, and the settings want it.
	ErrNoTLS = errors.New("the server offers no TLS")
	// ErrCertificate: the server's certificate proves nothing.
	ErrCertificate = errors.New("the server's certificate cannot be verified")
	// ErrNoSuchHost: target_session_attrs asks for what no host is.
	ErrNoSuchHost = errors.New("no host is as target_session_attrs asks")
)

// Unreached is a database to which no connection was made: an ErrUnavailable.
// Its text is one line, each host in it once with what stood in the way there.
type Unreached struct {
	text   string
	kind   error // ErrNoTLS and the like; nil: another
	cause  error // the last that means something
	config *pgconn.Config
}

func (e *Unreached) Error() string { return e.text }

// Unwrap returns storage.ErrUnavailable and what is known beside.
func (e *Unreached) Unwrap() []error {
	errs := []error{storage.ErrUnavailable, e.cause}
	if e.kind != nil {
		errs = append(errs, e.kind)
	}
	return errs
}

// Target is where it was to lead.
func (e *Unreached) Target() Target { return targetOf(e.config) }

// unreached makes an *Unreached of an error of the driver that is one of
// connecting; of what the server says about settings it does not take a
// *Misused; others stay as they are.
func unreached(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	e := &Unreached{config: connect.Config}
	where, causes := map[string][]string{}, []string{}
	for _, a := range attempts(connect.Unwrap()) {
		where[a.cause] = append(where[a.cause], a.host)
		causes = append(causes, a.cause)
		if a.kind != nil || e.kind == nil {
			e.kind = a.kind
		}
		e.cause = a.err
	}
	for i, c := range causes {
		if slices.Index(causes, c) == i {
			e.text += "; " + strings.Join(where[c], ", ") + ": " + c
		}
	}
	e.text = "cannot connect to " + strings.TrimPrefix(e.text, "; ")
	var pg *pgconn.PgError
	if errors.As(e.cause, &pg) {
		if m := misusedBy(connect.Config, pg); m != nil {
			return m
		}
		if pg.Code == codePassword && connect.Config.Password == "" {
			e.text += " (no password was given)"
		}
	}
	return e
}

// attempt is what came of one host.
type attempt struct {
	host, cause string
	kind, err   error
}

// attempts lists the hosts in order, each with its last cause. That TLS is
// refused is none where the host was tried without it as well.
func attempts(err error) []attempt {
	var list []attempt
	for _, err := range leaves(err) {
		a := explained(err)
		i := slices.IndexFunc(list, func(b attempt) bool { return b.host == a.host })
		switch {
		case i < 0:
			list = append(list, a)
		case a.kind != ErrNoTLS: //nolint:errorlint // it is set here
			list[i] = a
		}
	}
	return list
}

// leaves are the errors that an error joins.
func leaves(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // what it wraps is looked at below
		var list []error
		for _, e := range joined.Unwrap() {
			list = append(list, leaves(e)...)
		}
		return list
	}
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "hostname resolving error") {
		return leaves(inner)
	}
	return []error{err}
}

// explained words an error of the driver: "127.0.0.1:5432 (db): dial error: ...".
func explained(err error) attempt {
	host, text, ok := strings.Cut(err.Error(), " (")
	if name, rest, found := strings.Cut(text, "): "); ok && found {
		if text = rest; !strings.Contains(host, name) {
			host += " (" + name + ")"
		}
	} else {
		host, text = "the server", err.Error()
	}
	a := attempt{host: host, err: err, cause: oneLine(text)}
	var (
		pg    *pgconn.PgError
		dns   *net.DNSError
		errno syscall.Errno
	)
	switch {
	case errors.As(err, &pg):
		a.cause = oneLine(fmt.Sprintf("%s (SQLSTATE %s)", pg.Message, pg.Code))
	case errors.As(err, &dns):
		a.host, a.cause = dns.Name, dns.Err
	case strings.Contains(text, "server refused TLS connection"):
		a.cause, a.kind = ErrNoTLS.Error(), ErrNoTLS
	case errors.As(err, new(*tls.CertificateVerificationError)):
		a.cause, a.kind = oneLine(strings.TrimPrefix(text, "tls error: ")), ErrCertificate
	case strings.HasPrefix(text, "ValidateConnect failed: "):
		a.cause, a.kind = oneLine(strings.TrimPrefix(text, "ValidateConnect failed: ")), ErrNoSuchHost
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		a.cause = "no answer in time"
	case errors.As(err, &errno):
		a.cause = errno.Error()
	}
	return a
}

// oneLine makes text of others harmless for a log and a terminal.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
}

// Target is where connection settings lead.
type Target struct {
	Hosts          []string // "db:5432", or a directory of sockets: "/run/postgresql:5432"
	Database, User string
}

// Resolve tells where a connection string leads, with what it leaves out taken
// from where it would be taken. No error of it holds a password.
func Resolve(url string) (Target, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return Target{}, unsecret(url, err)
	}
	return targetOf(cfg), nil
}

func targetOf(cfg *pgconn.Config) Target {
	t := Target{Database: cfg.Database, User: cfg.User}
	if t.Database == "" { // as the server does
		t.Database = cfg.User
	}
	add := func(host string, port uint16) {
		if h := fmt.Sprintf("%s:%d", host, port); !slices.Contains(t.Hosts, h) {
			t.Hosts = append(t.Hosts, h)
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		add(f.Host, f.Port)
	}
	return t
}
