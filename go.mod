module github.com/extenddb/extenddb

go 1.26

require github.com/cockroachdb/apd/v3 v3.2.3 // indirect
