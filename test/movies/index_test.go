// SPDX-License-Identifier: Apache-2.0

package movies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func testIndexes(t *testing.T, db *dynamodb.Client, movies []movie) {
	for _, forward := range []bool{true, false} {
		direct := func(ids []string) []string {
			if !forward {
				slices.Reverse(ids)
			}
			return ids
		}
		for _, title := range []string{"Rush", "Cinderella", "The Three Musketeers", "no such movie"} {
			got, err := query(t.Context(), db, &dynamodb.QueryInput{
				IndexName: aws.String("by-title"), KeyConditionExpression: aws.String("title = :t"), Limit: aws.Int32(1),
				ExpressionAttributeValues: attributes{":t": &types.AttributeValueMemberS{Value: title}}, ScanIndexForward: aws.Bool(forward),
			})
			if err != nil {
				t.Fatal(err)
			}
			// Ties of an index without sort key are in the order of the table's key.
			want := direct(sorted(movies, func(m movie) bool { return m.Title == title }, byYear))
			equal(t, "by-title "+title, ids(got), want)
		}
		for _, rating := range []string{"8.3", "7", "1.1", "10.5"} {
			got, err := query(t.Context(), db, &dynamodb.QueryInput{
				IndexName: aws.String("by-rating"), KeyConditionExpression: aws.String("rating = :r AND #k > :k"), Limit: aws.Int32(9),
				ExpressionAttributeNames: map[string]string{"#k": "rank"}, ScanIndexForward: aws.Bool(forward),
				ExpressionAttributeValues: attributes{":r": &types.AttributeValueMemberN{Value: rating}, ":k": &types.AttributeValueMemberN{Value: "99"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			want := direct(sorted(movies, func(m movie) bool {
				return m.Rating != "" && number(m.Rating).Cmp(number(rating)) == 0 && number(m.Rank).Cmp(number("99")) > 0
			}, func(a, b movie) int { return cmp.Or(number(a.Rank).Cmp(number(b.Rank)), byYear(a, b), byTitle(a, b)) }))
			equal(t, fmt.Sprintf("by-rating %s, forward %v", rating, forward), ids(got), want)
			for _, it := range got {
				if len(it) != 4 {
					t.Errorf("a KEYS_ONLY index returned %d attributes: %v", len(it), render(it))
				}
			}
		}
		got, err := query(t.Context(), db, &dynamodb.QueryInput{
			IndexName: aws.String("by-release"), KeyConditionExpression: aws.String("#y = :y AND begins_with(released, :m)"), Limit: aws.Int32(5),
			ExpressionAttributeNames: map[string]string{"#y": "year"}, ScanIndexForward: aws.Bool(forward),
			ExpressionAttributeValues: attributes{":y": &types.AttributeValueMemberN{Value: "2011"}, ":m": &types.AttributeValueMemberS{Value: "2011-0"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := direct(sorted(movies, func(m movie) bool { return m.Year == "2011" && strings.HasPrefix(m.Released, "2011-0") },
			func(a, b movie) int { return cmp.Or(strings.Compare(a.Released, b.Released), byTitle(a, b)) }))
		equal(t, fmt.Sprintf("by-release, forward %v", forward), ids(got), want)
	}

	got, err := scan(t.Context(), db, dynamodb.ScanInput{IndexName: aws.String("by-rating"), Limit: aws.Int32(333)})
	if err != nil {
		t.Fatal(err)
	}
	list := ids(got)
	slices.Sort(list)
	equal(t, "scan of a sparse index", list, sorted(movies, func(m movie) bool { return m.Rating != "" },
		func(a, b movie) int { return strings.Compare(a.id(), b.id()) }))
}

func byYear(a, b movie) int { return number(a.Year).Cmp(number(b.Year)) }

func testFilters(t *testing.T, db *dynamodb.Client, movies []movie) {
	values := attributes{
		":drama": &types.AttributeValueMemberS{Value: "Drama"}, ":seven": &types.AttributeValueMemberN{Value: "7"},
		":the": &types.AttributeValueMemberS{Value: "The "},
	}
	for _, c := range []struct {
		filter string
		uses   []string
		want   func(movie) bool
	}{
		{"contains(info.genres, :drama)", []string{":drama"}, func(m movie) bool { return slices.Contains(m.Genres, "Drama") }},
		{"info.genres[0] = :drama AND info.rating >= :seven", []string{":drama", ":seven"}, func(m movie) bool {
			return len(m.Genres) > 0 && m.Genres[0] == "Drama" && m.Rating != "" && number(m.Rating).Cmp(number("7")) >= 0
		}},
		{"attribute_not_exists(info.rating) OR NOT (info.rating < :seven)", []string{":seven"}, func(m movie) bool {
			return m.Rating == "" || number(m.Rating).Cmp(number("7")) >= 0
		}},
		{"begins_with(title, :the) AND attribute_exists(released)", []string{":the"}, func(m movie) bool {
			return strings.HasPrefix(m.Title, "The ") && m.Released != ""
		}},
		{"size(info.genres) = :seven", []string{":seven"}, func(m movie) bool { return len(m.Genres) == 7 }},
	} {
		used := attributes{}
		for _, name := range c.uses {
			used[name] = values[name]
		}
		got, err := scan(t.Context(), db, dynamodb.ScanInput{FilterExpression: aws.String(c.filter), ExpressionAttributeValues: used, Limit: aws.Int32(1000)})
		if err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		list := ids(got)
		slices.Sort(list)
		equal(t, c.filter, list, sorted(movies, c.want, func(a, b movie) int { return strings.Compare(a.id(), b.id()) }))
	}
}

func testProjections(t *testing.T, db *dynamodb.Client, movies []movie) {
	got, err := query(t.Context(), db, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("#y = :y"), ProjectionExpression: aws.String("title, info.directors[0], info.rating"),
		ExpressionAttributeNames: map[string]string{"#y": "year"}, Limit: aws.Int32(20),
		ExpressionAttributeValues: attributes{":y": &types.AttributeValueMemberN{Value: "1999"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range movies {
		if m.Year == "1999" {
			want = append(want, fmt.Sprint(m.Title, "|", m.FirstDirector, "|", m.Rating))
		}
	}
	slices.Sort(want)
	var have []string
	for _, it := range got {
		if _, ok := it["year"]; ok {
			t.Error("an attribute that was not asked for came back")
		}
		director := ""
		info, _ := it["info"].(*types.AttributeValueMemberM)
		var rating types.AttributeValue
		if info != nil {
			rating = info.Value["rating"]
			for _, d := range list(info.Value["directors"]) {
				director = text(d)
			}
		}
		have = append(have, fmt.Sprint(text(it["title"]), "|", director, "|", text(rating)))
	}
	slices.Sort(have)
	equal(t, "projection", have, want)

	count, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), IndexName: aws.String("by-title"), Select: types.SelectCount})
	if err != nil {
		t.Fatal(err)
	}
	if count.Items != nil || count.Count == 0 {
		t.Errorf("COUNT returned %d items and a count of %d", len(count.Items), count.Count)
	}
}
