// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"github.com/extenddb/extenddb/backupstore"
)

func objectChecks() []check {
	return []check{
		{"object/round trip", roundTrip},
		{"object/overwrite", overwrite},
		{"object/empty body", func(e *env) { e.put("k/empty", ""); e.holds("k/empty", "") }},
		{"object/odd readers", oddReaders},
		{"object/large body", largeBody},
		{"object/nothing is shared", nothingShared},
		{"object/a reader keeps its object", readerKeeps},
		{"object/missing", missing},
		{"object/failing body", failingBody},
		{"object/failing body keeps the old", failingOverwrite},
		{"object/partial read", partialRead},
		{"object/validate", validate},
	}
}

func roundTrip(e *env) {
	res := e.put("000000000000/t/1/data/000001.json.gz", "hello")
	e.holds("000000000000/t/1/data/000001.json.gz", "hello")
	meta := e.head("000000000000/t/1/data/000001.json.gz")
	if meta.ETag == "" || meta.ETag != res.ETag {
		e.Fatalf("ETag %q of head, %q of put", meta.ETag, res.ETag)
	}
	if meta.LastModified.IsZero() {
		e.Fatal("no time of last modification")
	}
	if e.h.Now != nil {
		if off := e.h.Now().Sub(meta.LastModified).Abs(); off > time.Minute {
			e.Fatalf("last modified %v, %v from now", meta.LastModified, off)
		}
	}
}

func overwrite(e *env) {
	first := e.put("k", "a longer first version")
	before := e.head("k")
	second := e.put("k", "second")
	e.holds("k", "second")
	if first.ETag == second.ETag {
		e.Fatalf("both versions have the ETag %s", first.ETag)
	}
	if after := e.head("k"); after.LastModified.Before(before.LastModified) {
		e.Fatalf("last modified went back from %v to %v", before.LastModified, after.LastModified)
	}
	e.lists("", "k")
}

func oddReaders(e *env) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one-byte": iotest.OneByteReader, "half": iotest.HalfReader, "data-and-eof": iotest.DataErrReader,
	} {
		_, err := e.s.Put(e.ctx, "odd/"+name, wrap(strings.NewReader("some bytes")), backupstore.PutOptions{Size: 10})
		e.ok(err)
		e.holds("odd/"+name, "some bytes")
	}
}

// part is the smallest part of a multipart upload.
const part = 5 << 20

func largeBody(e *env) {
	body := string(noise(2*part + 4096))
	for _, size := range []int64{0, int64(len(body))} {
		res, err := e.try("big", body, backupstore.PutOptions{Size: size})
		e.ok(err)
		equal(e, "size", res.Size, int64(len(body)))
		e.holds("big", body)
		meta := e.head("big")
		equal(e, "ETag", meta.ETag, res.ETag)
	}
}

func nothingShared(e *env) {
	body := []byte("mine")
	_, err := e.s.Put(e.ctx, "k", bytes.NewReader(body), backupstore.PutOptions{})
	e.ok(err)
	body[0] = 'X'
	e.holds("k", "mine")
	meta := e.head("k")
	meta.Size, meta.Key = 99, "other"
	e.holds("k", "mine")
}

func readerKeeps(e *env) {
	body := string(noise(1 << 20))
	e.put("k", body)
	r, err := e.s.Get(e.ctx, "k")
	e.ok(err)
	head := make([]byte, 100)
	_, err = io.ReadFull(r, head)
	e.ok(err)
	e.put("k", "something else")
	rest, err := io.ReadAll(r)
	e.ok(err)
	e.ok(r.Close())
	if string(head)+string(rest) != body {
		e.Fatal("an object changed under its reader")
	}
}

func missing(e *env) {
	e.absent("k")
	e.put("k/below", "x")
	for _, key := range []string{"k/belo", "k/below/x", "k/below/x/y", "K2/below"} {
		e.absent(key)
	}
	if _, err := e.read("k"); !errors.Is(err, backupstore.ErrNotFound) || e.head("k") != nil {
		e.Fatalf("what is above an object is one: error %v", err)
	}
}

func failingBody(e *env) {
	for _, n := range []int{0, 1, part + 4096} {
		_, err := e.s.Put(e.ctx, "new/dir/k", failing(n), backupstore.PutOptions{})
		e.fails(err, errBody)
		e.absent("new/dir/k")
		e.lists("")
	}
	e.put("new/dir/k", "fine")
	e.holds("new/dir/k", "fine")
}

func failingOverwrite(e *env) {
	res := e.put("d/k", "old")
	for _, o := range []backupstore.PutOptions{{}, {IfMatch: res.ETag}} {
		_, err := e.s.Put(e.ctx, "d/k", failing(part+4096), o)
		e.fails(err, errBody)
		e.holds("d/k", "old")
		e.lists("", "d/k")
	}
	equal(e, "ETag", e.head("d/k").ETag, res.ETag)
}

func partialRead(e *env) {
	e.put("k", string(noise(1<<20)))
	for range 20 {
		r, err := e.s.Get(e.ctx, "k")
		e.ok(err)
		_, err = r.Read(make([]byte, 1))
		e.ok(err)
		e.ok(r.Close())
	}
	e.deletes("k", 1)
}

func validate(e *env) {
	e.ok(e.s.Validate(e.ctx))
	e.lists("")
	e.put("k", "x")
	e.ok(e.s.Validate(e.ctx))
	e.lists("", "k")
}
