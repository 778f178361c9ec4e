// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/flate"
)

const (
	gzipLevel = 6
	blockSize = 512 << 10 // bytes of a block; another size makes other files
	dictSize  = 32 << 10  // as far back as deflate can refer
	pieceSize = 16 << 10  // what the caller compresses at a time, where it does so
)

// The parts of a gzip member (RFC 1952) that are always the same: neither a name
// nor a time, and no operating system; and a last deflate block with nothing in it.
const (
	gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	emptyBlock = "\x03\x00"
)

// gzipper compresses a stream into one gzip member. The stream is cut into
// blocks of equal length that are compressed side by side, each with the end of
// the one before it as its dictionary, so the result does not depend on how many
// run at once. Only compression runs aside, and without workers not even that:
// put is called by the caller of write and close alone, in order.
type gzipper struct {
	put     func([]byte) error
	workers int // 0: the caller compresses

	current *block
	running []*block // the oldest first
	spare   []*block
	writers []*flate.Writer // idle

	started bool   // the header is out
	crc     uint32 // of the plain bytes submitted
	size    uint32 // how many those are, modulo 2^32
}

// block is one block on its way.
type block struct {
	buf  []byte // the dictionary, then the plain bytes
	dict int    // bytes of the dictionary
	fed  int    // bytes of buf that z knows
	last bool   // of the stream

	z    *flate.Writer // nil until it begins
	out  bytes.Buffer
	err  error
	done chan struct{} // receives once it is compressed, or err says why not
}

func newGzipper(workers int, put func([]byte) error) *gzipper {
	return &gzipper{put: put, workers: max(workers, 0), current: &block{done: make(chan struct{}, 1)}}
}

// write adds p to the stream. After an error only abort is allowed.
func (g *gzipper) write(p []byte) error {
	for len(p) > 0 {
		b := g.current
		n := min(len(p), b.dict+blockSize-len(b.buf))
		b.buf = append(b.buf, p[:n]...)
		p = p[n:]
		var err error
		switch {
		case len(b.buf) == b.dict+blockSize:
			err = g.submit()
		case g.workers == 0 && len(b.buf)-max(b.fed, b.dict) >= pieceSize:
			if err = g.begin(b); err == nil {
				b.feed()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// submit starts to compress the current block and opens the next one. When as
// many blocks run as may, it waits for the oldest and writes it out meanwhile.
// Without workers it compresses the block itself.
func (g *gzipper) submit() error {
	var oldest *block
	if g.workers > 0 && len(g.running) == g.workers {
		var err error
		if oldest, err = g.wait(); err != nil {
			return err
		}
	}
	b := g.current
	g.crc = crc32.Update(g.crc, crc32.IEEETable, b.buf[b.dict:])
	g.size += uint32(len(b.buf) - b.dict)
	if err := g.begin(b); err != nil {
		return err
	}
	g.running = append(g.running, b)
	if g.workers > 0 {
		go b.compress()
	} else {
		b.compress()
	}
	if !b.last {
		g.current = g.next(b.buf[max(0, len(b.buf)-dictSize):])
	}
	if g.workers == 0 {
		var err error
		if oldest, err = g.wait(); err != nil {
			return err
		}
	}
	if oldest == nil {
		return nil
	}
	return g.emit(oldest)
}

// next returns an empty block that follows the bytes of dict.
func (g *gzipper) next(dict []byte) *block {
	var b *block
	if n := len(g.spare); n > 0 {
		b, g.spare = g.spare[n-1], g.spare[:n-1]
	} else {
		b = &block{buf: make([]byte, 0, dictSize+blockSize), done: make(chan struct{}, 1)}
	}
	b.buf = append(b.buf[:0], dict...)
	b.dict, b.fed = len(dict), 0
	return b
}

// begin gives a block what compresses it.
func (g *gzipper) begin(b *block) (err error) {
	if b.z != nil {
		return nil
	}
	if n := len(g.writers); n > 0 {
		b.z, g.writers = g.writers[n-1], g.writers[:n-1]
	} else if b.z, err = flate.NewWriter(nil, gzipLevel); err != nil {
		return fmt.Errorf("start compression: %w", err)
	}
	b.out.Reset()
	b.z.ResetDict(&b.out, b.buf[:b.dict])
	b.fed, b.err = b.dict, nil
	return nil
}

// feed compresses what has been added. How much at a time does not show.
func (b *block) feed() {
	if b.err == nil {
		_, b.err = b.z.Write(b.buf[b.fed:])
		b.fed = len(b.buf)
	}
}

// compress fills out. A block that is not the last one ends in a sync marker,
// which is at a byte boundary.
func (b *block) compress() {
	b.feed()
	switch {
	case b.err != nil:
	case b.last:
		b.err = b.z.Close()
	default:
		b.err = b.z.Flush()
	}
	b.done <- struct{}{}
}

// wait takes the oldest running block, compressed.
func (g *gzipper) wait() (*block, error) {
	b := g.running[0]
	g.running = append(g.running[:0], g.running[1:]...)
	<-b.done
	if b.err != nil {
		return nil, fmt.Errorf("compress: %w", b.err)
	}
	g.writers, b.z = append(g.writers, b.z), nil
	return b, nil
}

// emit writes a compressed block out, after the header when it is the first.
func (g *gzipper) emit(b *block) error {
	if err := g.start(); err != nil {
		return err
	}
	g.spare = append(g.spare, b)
	return g.put(b.out.Bytes())
}

func (g *gzipper) start() error {
	if g.started {
		return nil
	}
	g.started = true
	return g.put([]byte(gzipHeader))
}

// close ends the member. After an error only abort is allowed.
func (g *gzipper) close() error {
	rest := len(g.current.buf) > g.current.dict
	if rest {
		g.current.last = true
		if err := g.submit(); err != nil {
			return err
		}
	}
	for len(g.running) > 0 {
		b, err := g.wait()
		if err != nil {
			return err
		}
		if err := g.emit(b); err != nil {
			return err
		}
	}
	if err := g.start(); err != nil {
		return err
	}
	var end []byte
	if !rest {
		end = append(end, emptyBlock...)
	}
	end = binary.LittleEndian.AppendUint32(end, g.crc)
	end = binary.LittleEndian.AppendUint32(end, g.size)
	return g.put(end)
}

// abort waits until nothing runs any more, which takes milliseconds.
func (g *gzipper) abort() {
	for _, b := range g.running {
		<-b.done
	}
	g.running = nil
}
