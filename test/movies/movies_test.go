// SPDX-License-Identifier: Apache-2.0

// Package movies loads 4,609 real items with the AWS SDK and compares what the
// server answers with answers computed from the file.
package movies

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/test/proc"
)

const table = "movies"

// movie is what the tests need of an item, beside the item itself.
type movie struct {
	Year, Title   string
	Rating, Rank  string // Rating is "" where the file has none
	Released      string // "" where the file has none
	FirstDirector string
	Genres        []string
}

type attributes = map[string]types.AttributeValue

func (m movie) id() string { return m.Year + "/" + m.Title }

// item is the movie with top-level attributes derived from info.
func (m movie) item(info types.AttributeValue) attributes {
	it := attributes{
		"year": &types.AttributeValueMemberN{Value: m.Year}, "title": &types.AttributeValueMemberS{Value: m.Title},
		"rank": &types.AttributeValueMemberN{Value: m.Rank}, "info": info,
	}
	if m.Rating != "" {
		it["rating"] = &types.AttributeValueMemberN{Value: m.Rating}
	}
	if m.Released != "" {
		it["released"] = &types.AttributeValueMemberS{Value: m.Released}
	}
	return it
}

// read returns the movies of the file and the items to put.
func read(t *testing.T) ([]movie, []attributes) {
	t.Helper()
	f, err := os.Open("testdata/movies.ddb.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var movies []movie
	var items []attributes
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Item map[string]json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		value := func(name string) types.AttributeValue {
			v, err := decode(line.Item[name])
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		info := value("info").(*types.AttributeValueMemberM)
		m := movie{Year: text(value("year")), Title: text(value("title")), Rating: text(info.Value["rating"]),
			Rank: text(info.Value["rank"]), Released: text(info.Value["release_date"])}
		for _, d := range list(info.Value["directors"]) {
			m.FirstDirector = cmp.Or(m.FirstDirector, text(d))
		}
		for _, g := range list(info.Value["genres"]) {
			m.Genres = append(m.Genres, text(g))
		}
		movies = append(movies, m)
		items = append(items, m.item(info))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(movies) != 4609 {
		t.Fatalf("the file holds %d movies, not 4609", len(movies))
	}
	return movies, items
}

// decode reads DynamoDB JSON by hand: the test must not trust the code it tests.
func decode(raw json.RawMessage) (types.AttributeValue, error) {
	var v struct {
		S, N *string
		BOOL *bool
		L    []json.RawMessage
		M    map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	switch {
	case v.S != nil:
		return &types.AttributeValueMemberS{Value: *v.S}, nil
	case v.N != nil:
		return &types.AttributeValueMemberN{Value: *v.N}, nil
	case v.BOOL != nil:
		return &types.AttributeValueMemberBOOL{Value: *v.BOOL}, nil
	case v.L != nil:
		l := &types.AttributeValueMemberL{Value: []types.AttributeValue{}}
		for _, e := range v.L {
			d, err := decode(e)
			if err != nil {
				return nil, err
			}
			l.Value = append(l.Value, d)
		}
		return l, nil
	case v.M != nil:
		m := &types.AttributeValueMemberM{Value: attributes{}}
		for name, e := range v.M {
			d, err := decode(e)
			if err != nil {
				return nil, err
			}
			m.Value[name] = d
		}
		return m, nil
	}
	return nil, fmt.Errorf("no known type in %s", raw)
}

func text(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

func list(v types.AttributeValue) []types.AttributeValue {
	if l, ok := v.(*types.AttributeValueMemberL); ok {
		return l.Value
	}
	return nil
}

func number(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("not a number: " + s)
	}
	return r
}

func key(name, kind string) types.KeySchemaElement {
	return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: types.KeyType(kind)}
}

func create(t *testing.T, db *dynamodb.Client) {
	t.Helper()
	def := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind}
	}
	all := &types.Projection{ProjectionType: types.ProjectionTypeAll}
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{def("year", "N"), def("title", "S"), def("rating", "N"), def("rank", "N"), def("released", "S")},
		KeySchema:            []types.KeySchemaElement{key("year", "HASH"), key("title", "RANGE")},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String("by-title"), KeySchema: []types.KeySchemaElement{key("title", "HASH")}, Projection: all},
			{IndexName: aws.String("by-rating"), KeySchema: []types.KeySchemaElement{key("rating", "HASH"), key("rank", "RANGE")},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}},
		},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{
			{IndexName: aws.String("by-release"), KeySchema: []types.KeySchemaElement{key("year", "HASH"), key("released", "RANGE")},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{"rank"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := dynamodb.NewTableExistsWaiter(db).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)}, 1<<35); err != nil {
		t.Fatal(err)
	}
}

// load puts the items with eight writers.
func load(t *testing.T, db *dynamodb.Client, items []attributes) {
	t.Helper()
	batches := make(chan []types.WriteRequest)
	errs := make(chan error, 8)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for batch := range batches {
				out, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: batch}})
				if err == nil && len(out.UnprocessedItems) > 0 {
					err = errors.New("unprocessed items")
				}
				if err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for chunk := range slices.Chunk(items, 25) {
		var batch []types.WriteRequest
		for _, it := range chunk {
			batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		}
		batches <- batch
	}
	close(batches)
	writers.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}

func ids(items []attributes) []string {
	out := make([]string, 0, len(items))
	for _, it := range items {
		out = append(out, text(it["year"])+"/"+text(it["title"]))
	}
	return out
}

// query reads all pages and checks that none is larger than limit.
func query(ctx context.Context, db *dynamodb.Client, in *dynamodb.QueryInput) ([]attributes, error) {
	in.TableName = aws.String(table)
	var items []attributes
	for p := dynamodb.NewQueryPaginator(db, in); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		if in.Limit != nil && page.ScannedCount > *in.Limit {
			return nil, fmt.Errorf("a page of %d for a limit of %d", page.ScannedCount, *in.Limit)
		}
		items = append(items, page.Items...)
	}
	return items, nil
}

func scan(ctx context.Context, db *dynamodb.Client, in dynamodb.ScanInput) ([]attributes, error) {
	in.TableName = aws.String(table)
	var items []attributes
	for p := dynamodb.NewScanPaginator(db, &in); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
	}
	return items, nil
}

func TestMovies(t *testing.T) {
	t.Parallel()
	bin := proc.Binary(t, t.TempDir())
	movies, items := read(t)
	proc.EachEngine(t, func(t *testing.T, e proc.Engine) {
		db := proc.Start(t, bin, e.Database(t)).Client()
		create(t, db)
		load(t, db, items)
		testReads(t, db, movies, items)
	})
}

// testReads reads a table of all movies in every way.
func testReads(t *testing.T, db *dynamodb.Client, movies []movie, items []attributes) {
	t.Run("query", func(t *testing.T) { t.Parallel(); testQuery(t, db, movies) })
	t.Run("scan", func(t *testing.T) { t.Parallel(); testScan(t, db, movies, items) })
	t.Run("indexes", func(t *testing.T) { t.Parallel(); testIndexes(t, db, movies) })
	t.Run("filters", func(t *testing.T) { t.Parallel(); testFilters(t, db, movies) })
	t.Run("projections", func(t *testing.T) { t.Parallel(); testProjections(t, db, movies) })
}

// sorted returns the ids of the movies that want keeps, in the given order.
func sorted(movies []movie, want func(movie) bool, order func(a, b movie) int) []string {
	var keep []movie
	for _, m := range movies {
		if want(m) {
			keep = append(keep, m)
		}
	}
	slices.SortFunc(keep, order)
	out := make([]string, 0, len(keep))
	for _, m := range keep {
		out = append(out, m.id())
	}
	return out
}

func byTitle(a, b movie) int { return strings.Compare(a.Title, b.Title) }

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d items, want %d; first difference at %d", what, len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func testQuery(t *testing.T, db *dynamodb.Client, movies []movie) {
	years := map[string]bool{}
	for _, m := range movies {
		years[m.Year] = true
	}
	for year := range years {
		for _, forward := range []bool{true, false} {
			got, err := query(t.Context(), db, &dynamodb.QueryInput{
				KeyConditionExpression: aws.String("#y = :y"), ExpressionAttributeNames: map[string]string{"#y": "year"},
				ExpressionAttributeValues: attributes{":y": &types.AttributeValueMemberN{Value: year}},
				ScanIndexForward:          aws.Bool(forward), Limit: aws.Int32(17), ConsistentRead: aws.Bool(true),
			})
			if err != nil {
				t.Fatal(err)
			}
			want := sorted(movies, func(m movie) bool { return m.Year == year }, byTitle)
			if !forward {
				slices.Reverse(want)
			}
			equal(t, fmt.Sprintf("year %s, forward %v", year, forward), ids(got), want)
		}
	}
	got, err := query(t.Context(), db, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("#y = :y AND title BETWEEN :a AND :b"), ExpressionAttributeNames: map[string]string{"#y": "year"},
		ExpressionAttributeValues: attributes{":y": &types.AttributeValueMemberN{Value: "2013"},
			":a": &types.AttributeValueMemberS{Value: "G"}, ":b": &types.AttributeValueMemberS{Value: "T"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "titles from G to T", ids(got), sorted(movies, func(m movie) bool { return m.Year == "2013" && m.Title >= "G" && m.Title <= "T" }, byTitle))
}

func testScan(t *testing.T, db *dynamodb.Client, movies []movie, items []attributes) {
	want := sorted(movies, func(movie) bool { return true }, func(a, b movie) int { return strings.Compare(a.id(), b.id()) })
	got, err := scan(t.Context(), db, dynamodb.ScanInput{Limit: aws.Int32(499)})
	if err != nil {
		t.Fatal(err)
	}
	full := map[string]attributes{}
	for _, it := range got {
		full[ids([]attributes{it})[0]] = it
	}
	for _, it := range items {
		id := ids([]attributes{it})[0]
		if !same(full[id], it) {
			t.Errorf("%s came back changed", id)
		}
	}
	list := ids(got)
	slices.Sort(list)
	equal(t, "scan", list, want)

	for _, segments := range []int32{1, 2, 7, 64} {
		var mu sync.Mutex
		var all []string
		var readers sync.WaitGroup
		for s := range segments {
			readers.Go(func() {
				got, err := scan(t.Context(), db, dynamodb.ScanInput{Segment: aws.Int32(s), TotalSegments: aws.Int32(segments), Limit: aws.Int32(301)})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, ids(got)...)
			})
		}
		readers.Wait()
		slices.Sort(all)
		equal(t, fmt.Sprintf("scan in %d segments", segments), all, want)
	}
}

// same compares items by value; the SDK's types have no equality of their own.
func same(a, b attributes) bool { return fmt.Sprint(render(a)) == fmt.Sprint(render(b)) }

func render(v any) any {
	switch v := v.(type) {
	case attributes:
		out := map[string]any{}
		for name, e := range v {
			out[name] = render(e)
		}
		return out
	case []types.AttributeValue:
		out := []any{}
		for _, e := range v {
			out = append(out, render(e))
		}
		return out
	case *types.AttributeValueMemberS:
		return "S:" + v.Value
	case *types.AttributeValueMemberN:
		return "N:" + number(v.Value).RatString()
	case *types.AttributeValueMemberL:
		return render(v.Value)
	case *types.AttributeValueMemberM:
		return render(v.Value)
	}
	return fmt.Sprintf("%#v", v)
}
