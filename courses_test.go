package psim_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// courseRooms lists the folders that may speak of the two courses, with those below them.
// The tables of published are others' measurements, two of them in a course.
var courseRooms = []string{"courses", "cmd/psim", "published"}

// courseFiles lists the other files that may, and why.
var courseFiles = map[string]string{
	"schedules/gpipe.go":   "has the schedule hw4, and says what it is of",
	"schedules/options.go": "reads an older name of a partition",
	"courses_test.go":      "is this test",
	"imports_test.go":      "names the packages of the courses",
}

// courseNames lists names that any file may write: of examples and of the catalogs in
// configs, of the schedule hw4, of keys in result.json, and older ones that are read.
var courseNames = []string{
	"course-timeline", "cs1390-core", "gloo-cs1390", "hw4",
	"course_tokens_per_s", "course_samples_per_s",
	"partition=course", // an older name of the preset's partition
}

// courseWords matches what names a course. Papers by an author named Brown may be cited.
var courseWords = regexp.MustCompile(`(?i)cs-?1390|11-?868|hw4|brown( et al\.)?( 20\d\d)?|course`)

// ofCourse lists the words in a text that name a course.
func ofCourse(text string) []string {
	for _, name := range courseNames {
		text = strings.ReplaceAll(text, name, "")
	}
	text = strings.ReplaceAll(text, "of course", "")
	return slices.DeleteFunc(courseWords.FindAllString(text, -1), func(word string) bool {
		return strings.HasPrefix(word, "Brown") && strings.HasSuffix(word, "0") // with a year
	})
}

// The courses have rooms of their own. Nothing else names them: no comment, no name and
// no text, but for the names in courseNames.
func TestCoursesStayInTheirRooms(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if courseFiles[s.name] != "" || slices.ContainsFunc(courseRooms, func(room string) bool {
			return strings.HasPrefix(path.Dir(s.name)+"/", room+"/")
		}) {
			used[s.name] = true
			continue
		}
		complain := func(at token.Pos, words []string) {
			if len(words) > 0 {
				t.Errorf("%s: %q: only %s may name a course", s.set.Position(at), words, strings.Join(courseRooms, ", "))
			}
		}
		for _, group := range s.parsed.Comments {
			for _, c := range group.List {
				complain(c.Pos(), ofCourse(c.Text))
			}
		}
		ast.Inspect(s.parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				complain(n.Pos(), ofCourse(n.Name))
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					complain(n.Pos(), ofCourse(text))
				}
			}
			return true
		})
	}
	for name := range courseFiles {
		require.True(t, used[name], "%s is gone: take it from courseFiles", name)
	}
}

// TestCourseWords proves that the rule can be broken.
func TestCourseWords(t *testing.T) {
	for _, text := range []string{"CS1390", "CMU's 11-868", "TestHW4", "Brown's assignment", "as in the course", "courseRate"} {
		require.NotEmpty(t, ofCourse(text), text)
	}
	for _, text := range []string{"of course", "device cs1390-core", "gpipe, hw4", "Brown et al. 2020", "(Brown 2020)", "a resource"} {
		require.Empty(t, ofCourse(text), text)
	}
}
