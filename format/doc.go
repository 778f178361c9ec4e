// SPDX-License-Identifier: Apache-2.0

// Package format is what a backup is: names of its objects, the manifest and
// its digest, gzip data files, and the manifests of a DynamoDB export beside
// them. docs/format.md is its specification.
//
// A backup of one table lies below one prefix:
//
//	<account>/<table>/<backup id>/
//	  _started                   empty, written first
//	  data/000001.json.gz …      the items, and nothing else
//	  manifest-files.json .md5   as a DynamoDB export has them
//	  manifest-summary.json .md5
//	  extenddb-annex.json        optional
//	  extenddb-manifest.json     the commit record, written last
package format
