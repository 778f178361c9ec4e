// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// The targets.
const (
	maxGetCPU      = 35.0 // us a GetItem may cost beyond an empty handler
	minGain32      = 3.0  // times one transaction per request, PutItem
	minGain128     = 5.0
	minSync        = 500 * time.Microsecond // below, sharing one saves too little to be judged
	maxCreate      = 100.0                  // ms
	maxWriterWait  = 100.0                  // ms
	maxFirstAnswer = 50.0                   // ms
	maxIdle        = 40.0                   // MiB
)

// Verdict is what became of a target.
type Verdict struct {
	Target   string `json:"target"`
	Measured string `json:"measured"`
	Result   string `json:"result"` // pass, fail, or "not judged: " and why
}

func judge(ok bool) string {
	if ok {
		return "pass"
	}
	return "fail"
}

// verdicts judges a report.
func verdicts(r *Report, clients []int) []Verdict {
	var out []Verdict
	for _, n := range clients {
		more, ok := r.Cells.compare("GetItem", n, targetHTTP, targetEmpty, func(http, empty Sample) float64 { return http.CPU - empty.CPU })
		if ok {
			out = append(out, Verdict{fmt.Sprintf("GetItem, %d clients: server CPU at most that of an empty handler + %.0f us", n, maxGetCPU),
				fmt.Sprintf("+ %.1f us", more), judge(more <= maxGetCPU)})
		}
	}
	for _, g := range []struct {
		clients int
		min     float64
	}{{32, minGain32}, {128, minGain128}} {
		gain, ok := r.Cells.compare("PutItem", g.clients, targetHTTP, targetSingle, func(http, single Sample) float64 { return http.Rate / single.Rate })
		if !ok {
			continue
		}
		result := judge(gain >= g.min)
		if r.Machine.Sync < micros(minSync) {
			result = fmt.Sprintf("not judged: fsync takes %.0f us, less than %.0f", r.Machine.Sync, micros(minSync))
		}
		out = append(out, Verdict{fmt.Sprintf("PutItem, %d clients: at least %.0f times one transaction per request", g.clients, g.min),
			fmt.Sprintf("%.1f times", gain), result})
	}
	out = append(out,
		Verdict{fmt.Sprintf("CreateTable with %d tables present: less than %.0f ms", r.Tables.Present, maxCreate),
			fmt.Sprintf("at most %.1f ms", r.Tables.Max), judge(r.Tables.Max < maxCreate)},
		Verdict{fmt.Sprintf("no writer waits more than %.0f ms meanwhile", maxWriterWait),
			fmt.Sprintf("at most %.1f ms", r.Tables.WriterMax), judge(r.Tables.WriterMax <= maxWriterWait)})
	for _, s := range r.Starts {
		out = append(out,
			Verdict{fmt.Sprintf("first answer, %s: less than %.0f ms after the start", s.File, maxFirstAnswer),
				fmt.Sprintf("%.1f ms", s.FirstAnswer), judge(s.FirstAnswer < maxFirstAnswer)},
			Verdict{fmt.Sprintf("idle, %s: less than %.0f MiB", s.File, maxIdle),
				fmt.Sprintf("%.1f MiB", s.Idle), judge(s.Idle < maxIdle)})
	}
	return out
}
