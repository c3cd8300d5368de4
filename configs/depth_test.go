package configs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// What nests too deeply is refused before anything of that depth is made, over
// how many lines it may go.
func TestTooDeep(t *testing.T) {
	const problem = "brackets, braces or dotted keys nest more than 100 levels deep; no setting nests so deeply"
	for name, c := range map[string]struct{ text, at string }{
		"brackets and braces in turn": {"x = " + strings.Repeat("[\n{a=", 20_000), ":51:4"},
		"braces of a line":            {"x = " + strings.Repeat("{a=", 20_000), ":1:305"},
		"dotted headers":              {strings.Repeat("[b"+strings.Repeat(".a", 4000)+"]\n", 40), ":1:201"},
		"a dotted key":                {"# [[[\nb" + strings.Repeat(".a", 4000) + " = 1\n", ":2:202"},
		"behind strings":              {"x = ['a\\', \"]\\\"]\", '''\n''''', \"\"\"\n]\"\"\"\", " + strings.Repeat("[", 100), ":3:107"},
	} {
		_, err := configs.Parse("x.toml", []byte(c.text))
		require.EqualError(t, err, "x.toml"+c.at+": "+problem, name)
		_, err = configs.ParseMachine("x.toml", []byte(c.text))
		require.EqualError(t, err, "x.toml"+c.at+": "+problem, name)
	}
}

// Strings and comments do not nest, and what is closed is not counted.
func TestNotTooDeep(t *testing.T) {
	deep := strings.Repeat("[{a.", 200)
	for _, line := range []string{
		"# " + deep,
		`name2 = "` + deep + `"`,
		`name2 = "\"` + deep + `"`,
		`name2 = '` + deep + `'`,
		"name2 = '''\n" + deep + "\n''' # " + deep,
		"name2 = \"\"\"\n\\\"\"\"" + deep + "\n\"\"\"",
		"name2 = [" + strings.Repeat("[1.5], ", 5000) + "]",
		"name2 = [" + strings.Repeat("{a.b = 1.5}, ", 5000) + "]",
		"name2 = [" + strings.Repeat("1.5,\n", 5000) + "]",
	} {
		_, err := configs.Parse("x.toml", []byte(strings.Replace(small, "[schedule]", "[schedule]\n"+line, 1)))
		if strings.HasPrefix(line, "#") {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, `unknown key "schedule.name2"`, line[:20])
	}
}
