// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/extenddb/extenddb/test/servers"
)

// between puts a proxy between a server and its database.
func between(t *testing.T, database string) (proxy *toxiproxy.Proxy, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy = toxiproxy.NewProxy(api, "database", "127.0.0.1:0", u.Host)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	u.Host = proxy.Listen
	return proxy, u.String()
}

// poison adds something to what goes through the proxy, and returns what ends
// it.
func poison(t *testing.T, proxy *toxiproxy.Proxy, kind, stream, attributes string) (cure func()) {
	t.Helper()
	toxic, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":{%s}}`, kind, stream, attributes)))
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := proxy.Toxics.RemoveToxic(t.Context(), toxic.Name); err != nil {
			t.Error(err)
		}
	}
}

// TestCutNetwork cuts all connections to the database and lets none through for
// a while.
func TestCutNetwork(t *testing.T) {
	t.Parallel()
	direct := servers.Database(t)
	proxy, through := between(t, direct)
	r := newRig(t, through, direct, 1)
	r.mayDoubt = true
	for range cuts {
		r.under(func() {
			proxy.Stop()
			r.isReady(http.StatusServiceUnavailable)
			r.refuses()
			if err := proxy.Start(); err != nil {
				t.Fatal(err)
			}
			r.isReady(http.StatusOK)
		})
	}
	r.finish()
}

// TestSlowNetwork: each answer of the database takes 200 ms more.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	direct := servers.Database(t)
	proxy, through := between(t, direct)
	r := newRig(t, through, direct, 1)
	r.mayDoubt = true
	r.under(func() {
		cure := poison(t, proxy, "latency", "downstream", `"latency":200`)
		rest(long)
		cure()
	})
	r.finish()
}

// TestSilentNetwork: nothing gets through for a while, and no end of a
// connection is told. Who asks whether the server is ready is answered all the
// same, and calls end within the time that connections are given up in.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	direct := servers.Database(t)
	proxy, through := between(t, direct)
	r := newRig(t, through, direct, 1)
	r.mayDoubt, r.limit = true, time.Minute
	for range silences {
		r.under(func() {
			requests := poison(t, proxy, "timeout", "upstream", `"timeout":0`)
			answers := poison(t, proxy, "timeout", "downstream", `"timeout":0`)
			began := time.Now()
			r.isReady(http.StatusServiceUnavailable)
			if took := time.Since(began); took > limit {
				t.Errorf("/readyz took %v", took)
			}
			rest(silence)
			requests() // which ends the connections
			answers()
			r.isReady(http.StatusOK)
		})
	}
	r.finish()
}
