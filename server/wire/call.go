// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/server/api"
)

const (
	// pageReserve is what an operation that answers pages is given before it
	// starts: the service's pages have 1 MiB.
	pageReserve = 1 << 20
	// growStep is what it asks for beyond that at a time.
	growStep = 256 << 10
	// freeResponse is what every response may hold uncharged.
	freeResponse = 8 << 10
	// keepBuffer bounds the buffers that are kept for the next request.
	keepBuffer = 64 << 10
	// zipAbove is the size from which responses are compressed when asked.
	zipAbove = 1 << 10
	// maxZips bounds the compressors (0.8 MiB each) at work; responses that
	// find none go out as they are.
	maxZips = 4
	// writeStep is what must leave within Options.Stall.
	writeStep = 256 << 10
)

// call is one request and its response. Calls are used again.
type call struct {
	h    *Handler
	w    http.ResponseWriter
	r    *http.Request
	conn deadlines

	in       intake
	progress progress
	body     []byte
	held     int64 // bytes of the requests' share
	parse    int64 // more of them, for what the body was read into
	vast     bool  // holds Handler.vast

	parseRoom func(int) (int, error) // is moreParse

	out     api.Body
	room    int64 // bytes out may have
	used    int64 // bytes of those asked for
	charged int64 // bytes of the responses' share
	work    int64 // bytes of the share of those who work
	zip     bytes.Buffer

	contentType string // to be echoed; "" when the request has none that fits
	origin      bool   // the request has an Origin header
	close       bool   // the connection must not be used again
	ids         [idLength]byte
	values      [5][1]string // of headers
}

func newCall(h *Handler) *call {
	c := &call{h: h, body: make([]byte, 0, firstRead)}
	c.out.Grow, c.in.abort, c.parseRoom = c.grow, c.abort, c.moreParse
	c.out.Work = work{c}
	return c
}

func (c *call) begin(w http.ResponseWriter, r *http.Request) {
	c.w, c.r = w, r
	c.conn, _ = w.(deadlines)
	c.contentType = echo(header(r, "Content-Type"))
	_, c.origin = r.Header["Origin"]
	c.room = freeResponse
	newID(&c.ids)
	if c.origin {
		w.Header()["Access-Control-Allow-Origin"] = []string{"*"}
	}
}

// release returns what the call holds and the call itself.
func (c *call) release() {
	if c.held > 0 {
		c.h.requests.give(nil, c.held)
	}
	if c.charged > 0 {
		c.h.responses.give(nil, c.charged)
	}
	work{c}.Keep(0)
	if cap(c.body) == 0 || cap(c.body) > keepBuffer {
		c.body = make([]byte, 0, firstRead)
	}
	if cap(c.out.B) > keepBuffer {
		c.out.B = nil
	}
	if c.zip.Cap() > keepBuffer {
		c.zip = bytes.Buffer{}
	}
	c.body, c.out.B = c.body[:0], c.out.B[:0]
	c.w, c.r, c.conn, c.progress = nil, nil, nil, progress{}
	c.held, c.charged, c.room, c.used, c.close = 0, 0, 0, 0, false
	c.h.calls.Put(c)
}

// reserve waits for the room of a page.
func (c *call) reserve() error {
	if err := c.h.responses.take(c.r.Context(), nil, pageReserve); err != nil {
		return err
	}
	c.charged = pageReserve
	c.room += pageReserve
	return nil
}

// grow is the Grow of out: it never waits, others may be waiting for us.
func (c *call) grow(n int) bool {
	want := c.used + int64(n)
	if missing := want - c.room; missing > 0 {
		missing = (missing + growStep - 1) / growStep * growStep
		if !c.h.responses.tryTake(missing) {
			return false
		}
		c.charged += missing
		c.room += missing
	}
	c.used = want
	return true
}

// settle charges what the response really holds: it may be long on its way.
func (c *call) settle() {
	holds := max(int64(cap(c.out.B)+c.zip.Cap())-freeResponse, 0)
	if more := holds - c.charged; c.work > 0 && (more <= 0 || c.h.responses.tryTake(more)) {
		c.charged += max(more, 0) // those who work need not wait for it to be read
		work{c}.Keep(0)
	}
	work{c}.Keep(int(holds)) // the response of who worked goes on in that share
	holds -= c.work
	if more := holds - c.charged; more > 0 {
		c.h.responses.force(more)
	} else if more < 0 {
		c.h.responses.give(nil, -more)
	}
	c.charged = holds
}

// fail answers an error, in place of what an operation has written.
func (c *call) fail(e *api.Error) {
	shown := 0
	for i := range e.Reasons {
		shown += len(e.Reasons[i].Item)
	}
	c.out.B = e.AppendJSON(slices.Grow(c.out.B[:0], shown))
	c.send(e.Status, c.out.B)
}

// send answers with JSON.
func (c *call) send(status int, body []byte) {
	c.values[4][0] = c.contentType
	if c.contentType == "" {
		c.values[4][0] = plainJSON
	}
	c.w.Header()["Content-Type"] = c.values[4][:]
	if len(body) > zipAbove && acceptsGzip(header(c.r, "Accept-Encoding")) {
		body = c.compress(body)
	}
	c.settle()
	c.write(status, body)
}

// text answers with plain text.
func (c *call) text(status int, body string) {
	c.w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	c.write(status, []byte(body))
}

// unknownPage answers what is no call of an operation at all.
func (c *call) unknownPage() {
	c.write(http.StatusNotFound, []byte("<UnknownOperationException/>\n"))
}

// preflight answers a browser that asks what it may send.
func (c *call) preflight() {
	hd := c.w.Header()
	for from, to := range map[string]string{
		"Access-Control-Request-Headers": "Access-Control-Allow-Headers",
		"Access-Control-Request-Method":  "Access-Control-Allow-Methods",
	} {
		if v := header(c.r, from); v != "" {
			hd[to] = []string{v}
		}
	}
	hd["Access-Control-Max-Age"] = []string{"172800"}
	c.write(http.StatusOK, nil)
}

// write sends a response whole. The checksum is of the bytes sent, compressed
// or not, as clients that check it expect.
func (c *call) write(status int, body []byte) {
	var buf [idLength + 10 + 20]byte // one string for all, cut in pieces
	text := append(buf[:0], c.ids[:]...)
	text = strconv.AppendUint(text, uint64(crc32.ChecksumIEEE(body)), 10)
	sum := len(text)
	text = strconv.AppendInt(text, int64(len(body)), 10)
	all := string(text)

	hd := c.w.Header()
	c.values[0][0], c.values[1][0], c.values[2][0], c.values[3][0] = all[:idLength], all[idLength:sum], all[sum:], "close"
	hd["X-Amzn-Requestid"] = c.values[0][:]
	hd["X-Amz-Crc32"] = c.values[1][:]
	hd["Content-Length"] = c.values[2][:]
	if c.close {
		hd["Connection"] = c.values[3][:]
	}
	c.w.WriteHeader(status)
	timed := len(body) > freeResponse && c.conn != nil // with less it holds only its connection
	for len(body) > 0 {
		n := min(len(body), writeStep)
		if timed {
			if c.conn.SetWriteDeadline(c.h.o.Clock.Now().Add(c.h.o.Stall)) != nil {
				return
			}
		}
		if _, err := c.w.Write(body[:n]); err != nil {
			return // the client is gone
		}
		body = body[n:]
	}
}

// compress returns body compressed, or as it is when all compressors are busy.
func (c *call) compress(body []byte) []byte {
	select {
	case c.h.zips <- struct{}{}:
		defer func() { <-c.h.zips }()
	default:
		return body
	}
	z, _ := c.h.gzips.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level exists
	}
	defer c.h.gzips.Put(z)
	c.zip.Reset()
	z.Reset(&c.zip)
	if _, err := z.Write(body); err != nil {
		return body
	}
	if err := z.Close(); err != nil {
		return body
	}
	c.w.Header()["Content-Encoding"] = []string{"gzip"}
	return c.zip.Bytes()
}

// acceptsGzip reads an Accept-Encoding header.
func acceptsGzip(accept string) bool {
	if accept == "" || accept == "identity" {
		return false
	}
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !found || err == nil && weight > 0
	}
	return false
}

const plainJSON = "application/json"

// echo returns the content type to answer with, "" for one that is not
// DynamoDB's. Parameters are ignored.
func echo(contentType string) string {
	name, _, _ := strings.Cut(contentType, ";")
	switch name = strings.TrimSpace(name); name {
	case "application/x-amz-json-1.0", plainJSON:
		return name
	}
	return ""
}

// idLength is the length of a request id of the service.
const idLength = 52

// id returns the request's id.
func (c *call) id() string { return string(c.ids[:]) }

func newID(id *[idLength]byte) {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
	var bits uint64
	for i := range id {
		if i%12 == 0 { // 12 characters of 5 bits
			bits = rand.Uint64()
		}
		id[i] = alphabet[bits&31]
		bits >>= 5
	}
}
