package table_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports/table"
)

// A rank is a row of the tables here.
type rank struct {
	number int
	busy   float64
	note   string
}

func ranks(n int) (list []rank) {
	for i := range n {
		list = append(list, rank{i, 1 / float64(i+1), ""})
	}
	return list
}

func columns() []table.Column[rank] {
	return []table.Column[rank]{
		{Head: "rank", Left: true, Cell: func(r rank) any { return r.number }},
		{Head: "busy", Over: "µs", Cell: func(r rank) any { return strconv.FormatFloat(r.busy, 'f', 2, 64) }},
		{Head: "note", Left: true, Cell: func(r rank) any { return r.note }},
	}
}

func Example() {
	page := table.NewPage(os.Stdout)
	page.Print("what the ranks do\n")
	table.Table[rank]{Columns: columns(), Rows: []rank{{0, 12.5, "first"}, {1, 8, ""}}}.Text(page)
	page.Warn([]string{"rank 1 idles"})
	page.Flush()
	// Output:
	// what the ranks do
	//            µs
	//   rank   busy  note
	//   0     12.50  first
	//   1      8.00
	//
	// warning: rank 1 idles
}

func ExampleTable_CSV() {
	table.Table[rank]{Rows: []rank{{0, 1e-7, `say "x", y`}}, Columns: []table.Column[rank]{
		{Head: "rank", Cell: func(r rank) any { return r.number }},
		{Head: "busy_s", Cell: func(r rank) any { return r.busy }},
		{Head: "hidden", Hide: true, Cell: func(rank) any { panic("a hidden cell") }},
		{Head: "note", Cell: func(r rank) any { return r.note }},
	}}.CSV(os.Stdout)
	// Output:
	// rank,busy_s,note
	// 0,1e-07,"say ""x"", y"
}

func ExampleTable_Markdown() {
	t := table.Table[rank]{Columns: columns(), Rows: []rank{{0, 12.5, "first"}, {1, 8, ""}}}
	t.Columns[1].Over = ""
	t.Markdown(os.Stdout)
	// Output:
	// | rank | busy | note |
	// |---|--:|---|
	// | 0 | 12.50 | first |
	// | 1 | 8.00 |  |
}

func ExampleTable_List() {
	table.Table[[2]string]{Rows: [][2]string{{"gpipe", "all forwards first"}, {"1f1b", "in turns"}}, Columns: []table.Column[[2]string]{
		{Head: "schedule", Cell: func(s [2]string) any { return s[0] }},
		{Head: "what it does", Cell: func(s [2]string) any { return s[1] }},
	}}.List(os.Stdout)
	// Output:
	// schedule  what it does
	// gpipe     all forwards first
	// 1f1b      in turns
}

// An excerpt has the first and last rows of many, and the summary only then.
func TestExcerpt(t *testing.T) {
	excerpt := func(n int) string {
		var b bytes.Buffer
		page := table.NewPage(&b)
		table.Table[rank]{Columns: columns()[:1], Rows: ranks(n), Excerpt: true, Summary: []rank{{number: -1}}}.Text(page)
		require.NoError(t, page.Flush())
		return b.String()
	}
	all := "  rank\n"
	for i := range 16 {
		all += fmt.Sprintf("  %d\n", i)
	}
	require.Equal(t, all, excerpt(16))
	require.Equal(t, "  rank\n  0\n  1\n  2\n  3\n  …\n  13\n  14\n  15\n  16\n\n  -1\n", excerpt(17))
	require.Equal(t, "  rank\n", excerpt(0))
}
