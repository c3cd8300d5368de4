package questions

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
)

// All texts of all questions, and the JSON of one answer in each unit. Other tests check the
// numbers of the JSON.
func TestGolden(t *testing.T) {
	all := NewSheet(answers(t))
	var text, markdown bytes.Buffer
	require.NoError(t, all.WriteText(&text, true))
	require.NoError(t, all.WriteMarkdown(&markdown))
	golden.Equal(t, "all.txt", text.Bytes())
	golden.Equal(t, "all.md", markdown.Bytes())
	data, err := json.MarshalIndent(NewSheet(answers(t, "1.3", "1.4", "1.5", "2.2", "4.4")), "", "  ")
	require.NoError(t, err)
	golden.Equal(t, "some.json", append(data, '\n'))
}

func TestTextFitsATerminal(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, NewSheet(answers(t)).WriteText(&text, true))
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		require.Equal(t, strings.TrimRight(line, " "), line)
		require.LessOrEqual(t, len([]rune(line)), 130, line)
	}
}

// wrong returns a sheet in which one question and all of its checks fail.
func wrong(t *testing.T) Sheet {
	for _, q := range formulas() {
		if q.ID == "1.4" {
			right := q.closedForm
			q.closedForm = func(v values) float64 { return right(v) + 1e-9 }
			q.cases = q.cases[:1]
			a, err := q.answer()
			require.NoError(t, err)
			return NewSheet([]QuestionAnswer{a})
		}
	}
	panic("no question 1.4")
}

func TestFailuresAreShownWithAllDigits(t *testing.T) {
	var text, markdown bytes.Buffer
	require.NoError(t, wrong(t).WriteText(&text, true))
	require.NoError(t, wrong(t).WriteMarkdown(&markdown))
	require.Contains(t, text.String(), "640.000000001 GB  640 GB     0/3     NO\n")
	require.Contains(t, text.String(), "      NO: W = 1: closed form 80.000000001 GB, simulated 80 GB\n")
	require.Contains(t, text.String(), "0 of 1 questions agree.")
	require.Contains(t, markdown.String(), "| W = 1 | 80.000000001 GB | 80 GB | NO |\n")
	require.Contains(t, markdown.String(), "It gives 640 GB; **the two do not agree everywhere** (0 of 3 further checks do).")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteErrorsAreReturned(t *testing.T) {
	r := NewSheet(answers(t, "1.6"))
	require.EqualError(t, r.WriteText(brokenPipe{}, false), "broken pipe")
	require.EqualError(t, r.WriteMarkdown(brokenPipe{}), "broken pipe")
}
