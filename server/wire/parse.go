// SPDX-License-Identifier: Apache-2.0

package wire

import "math"

const (
	// freeParse is what every request may be read into uncharged.
	freeParse = 64 << 10
	// parseStep is what is charged beyond that at a time.
	parseStep = 256 << 10
)

// moreParse charges what the request is read into: a body of 16 MiB can be
// 700 MiB of maps. It does not wait for the budget, as those it would wait for
// may be waiting themselves; for whom nothing is left, there is one place beside
// the budget. Who has it waits for nobody.
func (c *call) moreParse(atLeast int) (int, error) {
	n := (int64(atLeast) + parseStep - 1) / parseStep * parseStep
	if c.h.requests.tryTake(n) {
		c.parse += n
		return int(n), nil
	}
	select {
	case c.h.vast <- struct{}{}:
	default:
		if err := c.awaitVast(); err != nil {
			return 0, err
		}
	}
	c.vast = true
	return math.MaxInt / 2, nil
}

// awaitVast waits for the place beside the budget. What the request holds
// meanwhile is given up when others need it.
func (c *call) awaitVast() error {
	parked := intake{}
	evicted := c.h.requests.park(&parked, c.held+c.parse)
	end, stop := c.h.o.Clock.After(c.h.o.Wait)
	defer stop()
	var err error
	select {
	case c.h.vast <- struct{}{}:
		c.vast = true
	case <-evicted:
		err = errEvicted
	case <-end:
		err = errBusy
	case <-c.r.Context().Done():
		err = c.r.Context().Err()
	}
	if _, gone := c.h.requests.end(&parked); gone {
		c.held, c.parse = 0, 0 // given
		return errEvicted
	}
	return err
}

// parsed returns what the request was read into, when the operation is over.
func (c *call) parsed() {
	if c.parse > 0 {
		c.h.requests.give(nil, c.parse)
	}
	if c.vast {
		<-c.h.vast
	}
	c.parse, c.vast = 0, false
}
