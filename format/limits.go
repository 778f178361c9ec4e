// SPDX-License-Identifier: Apache-2.0

package format

// Defaults of what a reader accepts and a writer makes.
const (
	DefaultMaxManifest = 64 << 20 // bytes of a manifest
	DefaultMaxLine     = 32 << 20 // bytes of a line of a data file, newline included
	DefaultMaxPlain    = 2 << 30  // bytes of a data file, uncompressed
	DefaultTarget      = 64 << 20 // bytes at which a data file is full, uncompressed
)

// ReadLimits bound what a data file may expand to. Zeros are the defaults.
type ReadLimits struct {
	MaxLine  int64 `json:"max_line_bytes,omitempty"`  // of a line, newline included; DefaultMaxLine
	MaxPlain int64 `json:"max_plain_bytes,omitempty"` // of a file, uncompressed; DefaultMaxPlain
}
