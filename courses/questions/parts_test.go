package questions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every part of a question is answered, and every sentence answers a part.
func TestParts(t *testing.T) {
	for _, a := range answers(t) {
		seen := map[string]bool{}
		for i, p := range a.Parts {
			require.Equal(t, a.ID+string(rune('a'+i)), p.ID)
			require.NotEmpty(t, p.Question, p.ID)
			require.NotEmpty(t, p.Answer, p.ID)
			seen[p.ID] = true
		}
		if a.Observed == nil {
			continue
		}
		for _, s := range a.Sentences {
			require.Equal(t, len(a.Parts) > 0, seen[s.Part], "%s: %s", a.ID, s.Text)
			require.Contains(t, a.Answer, s.Text)
		}
	}
	require.Len(t, answers(t, "1.1")[0].Parts, 3)
	require.Len(t, answers(t, "4.4")[0].Parts, 2)
}

// One part is answered by itself: its sentences and graphs are those of the whole question.
func TestOnePart(t *testing.T) {
	one := func(ids ...string) QuestionAnswer {
		list, err := Answers(t.Context(), nil, ids...)
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0]
	}
	whole, some := answers(t, "4.1")[0], one("4.1b")
	require.Equal(t, whole.Parts[1:], some.Parts)
	require.Equal(t, "4.1", some.ID)
	require.Less(t, len(some.Sentences), len(whole.Sentences))
	for _, s := range some.Sentences {
		require.Equal(t, "4.1b", s.Part)
		require.Contains(t, whole.Sentences, s)
	}
	require.Equal(t, []AskedGraph{whole.Graphs[0]}, some.Graphs)
	both := one("4.4a", "4.4b")
	require.Equal(t, answers(t, "4.4")[0].Parts, both.Parts)
	require.Equal(t, both.Note, both.Parts[1].Answer)
}

// Parts are below their question in the list.
func TestListOfParts(t *testing.T) {
	var b strings.Builder
	WriteList(&b)
	require.Contains(t, b.String(), "\n1.1c\tWhat would change on GPUs with a fast interconnect?\n1.2\t")
	require.Contains(t, b.String(), "\nT3.2\t")
}
