// SPDX-License-Identifier: Apache-2.0

// Package faults breaks what lies below and around a server while clients
// load it: the server itself, its database, the network between. Whatever
// happens, no acknowledged write is lost, none is applied twice, indexes equal
// their tables, streams hold each change once and in order, and the server
// recovers by itself. With the build tag "full" all of it lasts longer.
package faults
