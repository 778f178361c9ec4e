// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
)

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

// checkBytes wants a number of bytes within limits, both included.
func checkBytes(low, high uint64) func(string) error {
	return func(s string) error {
		n, err := humanize.ParseBytes(s)
		switch {
		case err != nil, n > high && high == 1<<62:
			return errors.New("must be a number of bytes such as 64MiB")
		case n < low || n > high:
			return fmt.Errorf("must be a number of bytes from %s to %s", iec(int64(low)), iec(int64(high)))
		}
		return nil
	}
}

// minBudget lets one largest request and one largest page through.
const minBudget = 64 << 20

func checkBudget(s string) error {
	if n, err := humanize.ParseBytes(s); err != nil || n < minBudget || n > 1<<50 {
		return errors.New("must be a number of bytes of at least 64MiB")
	}
	return nil
}

func checkNumber(low, high int) func(string) error {
	return func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < low || n > high {
			return fmt.Errorf("must be a number from %d to %d", low, high)
		}
		return nil
	}
}

// checkPool wants a pool that a start and a snapshot beside requests fit in.
func checkPool(s string) error {
	if s == "0" {
		return nil
	}
	if checkNumber(2, 10000)(s) != nil {
		return errors.New("must be a number from 2 to 10000, or 0 for the default")
	}
	return nil
}

// checkSocket wants a path; how long it may be depends on the system.
func checkSocket(s string) error {
	switch {
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("a path cannot have a control character in it")
	case strings.HasPrefix(s, "~"):
		return errors.New("write the path out, only a shell knows ~")
	}
	return nil
}

func checkBool(s string) error {
	if _, err := strconv.ParseBool(s); err != nil {
		return errors.New("must be true or false")
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
