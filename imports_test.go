// Package psim_test keeps the house in order: who may import whom.
package psim_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// arrows lists, for every package of the program, the packages of psim that
// its code may import. cmd/psim may import all. The leaves under internal may
// be imported by all, and import nothing.
var arrows = map[string][]string{
	".":                    {"configs", "configs/parallel", "costmodel", "costmodel/memory", "costmodel/network", "results", "results/compare", "schedules", "schedules/graph", "schedules/wiring", "sim", "intervals", "costmodel/training"},
	"advise":               {".", "configs", "costmodel", "intervals", "plans", "profiles", "results", "results/judged", "results/rankings", "schedules", "schedules/graph"},
	"calibrate":            {"configs/machinefile", "costmodel", "costmodel/link", "costmodel/network", "costmodel/training", "schedules/collective", "schedules/graph"},
	"calibrate/site":       {},
	"calibrate/layers":     {"calibrate", "costmodel", "costmodel/link", "costmodel/network", "costmodel/training", "exec/backend", "exec/kernels", "exec/measure", "exec/run"},
	"configs":              {"configs/catalog", "configs/foreign", "configs/parallel", "costmodel", "costmodel/group", "costmodel/hfconfig", "costmodel/lengths", "costmodel/link", "costmodel/memory", "costmodel/models", "costmodel/network", "costmodel/stages", "costmodel/training", "schedules", "schedules/collective", "schedules/graph", "schedules/order", "schedules/partition", "schedules/search", "schedules/wiring"},
	"configs/catalog":      {},
	"configs/foreign":      {},
	"configs/lists":        {"configs", "costmodel", "costmodel/link", "costmodel/models", "costmodel/network", "costmodel/training"},
	"configs/machinefile":  {"costmodel", "costmodel/link"},
	"configs/parallel":     {"schedules/graph"},
	"costmodel":            {"costmodel/group", "costmodel/link", "costmodel/memory", "costmodel/network", "costmodel/stages", "costmodel/training", "schedules/graph", "schedules/wiring"},
	"costmodel/frozen":     {},
	"costmodel/group":      {},
	"costmodel/hfconfig":   {"costmodel/models"},
	"costmodel/lengths":    {},
	"costmodel/link":       {"schedules/graph"},
	"costmodel/memory":     {"costmodel/network", "costmodel/stages", "costmodel/training", "schedules/graph"},
	"costmodel/models":     {"configs/catalog", "costmodel/group", "costmodel/lengths", "costmodel/network", "costmodel/plain"},
	"costmodel/network":    {"costmodel/frozen", "costmodel/group"},
	"costmodel/plain":      {"costmodel/network"},
	"costmodel/stages":     {"costmodel/frozen", "costmodel/group", "costmodel/network", "costmodel/training", "schedules/graph", "schedules/wiring"},
	"costmodel/training":   {"costmodel/frozen", "costmodel/group", "costmodel/network"},
	"courses":              {".", "configs", "courses/coursefile", "courses/modes", "courses/questions", "exec/backend", "exec/session", "reports/figures", "reports/picture", "reports/table", "results", "results/tracecsv"},
	"courses/checks":       {"exec/backend", "exec/data", "exec/measure", "exec/session", "exec/train", "reports/table", "results", "schedules", "schedules/graph", "schedules/order"},
	"courses/coursefile":   {"courses/modes", "results", "schedules/graph"},
	"courses/lines":        {},
	"courses/modes":        {"configs"},
	"courses/questions":    {".", "configs", "costmodel", "costmodel/link", "costmodel/network", "costmodel/stages", "costmodel/training", "courses/modes", "results", "schedules", "schedules/collective", "schedules/graph", "schedules/partition", "schedules/wiring"},
	"exec/backend":         {"exec/cluster"},
	"exec/cluster":         {"exec/cluster/mpi"},
	"exec/cluster/mpi":     {},
	"exec/collectives":     {"exec/backend", "exec/kernels", "exec/run", "schedules/collective", "schedules/graph"},
	"exec/data":            {"costmodel/network"},
	"exec/doctor":          {"exec/backend"},
	"exec/exectest":        {"costmodel/models", "costmodel/network", "costmodel/stages", "costmodel/training", "exec/backend", "exec/cluster", "exec/data", "exec/kernels", "exec/train", "schedules", "schedules/graph", "schedules/order", "schedules/partition", "schedules/wiring"},
	"exec/kernels":         {"costmodel/network", "exec/backend"},
	"exec/measure":         {"costmodel/models", "costmodel/network", "costmodel/stages", "costmodel/training", "exec/backend", "exec/cluster", "exec/data", "exec/kernels", "exec/run", "exec/train", "schedules", "schedules/graph", "schedules/wiring"},
	"exec/pth":             {},
	"exec/pytorch":         {"costmodel/network", "exec/data", "exec/kernels", "results"},
	"exec/run":             {"exec/cluster", "schedules/graph"},
	"exec/session":         {".", "configs", "costmodel", "costmodel/network", "exec/backend", "exec/cluster", "exec/collectives", "exec/data", "exec/kernels", "exec/measure", "exec/pth", "exec/pytorch", "exec/run", "exec/train", "export", "reports", "reports/picture", "reports/titles", "results", "results/compare", "results/tracecsv", "schedules/collective", "schedules/graph"},
	"exec/train":           {"costmodel/network", "costmodel/stages", "exec/backend", "exec/cluster", "exec/collectives", "exec/data", "exec/kernels", "exec/run", "schedules/collective", "schedules/graph"},
	"exec/validation":      {"exec/backend", "exec/cluster/mpi", "exec/session", "reports/table", "results", "results/compare"},
	"launch":               {"launch/keyed", "launch/logged", "launch/patches", "launch/understood"},
	"launch/patches":       {"launch/understood"},
	"launch/logged":        {"launch/understood"},
	"launch/keyed":         {"launch/understood"},
	"launch/understood":    {},
	"results/judged":       {"results/rankings"},
	"export":               {"configs", "launch", "launch/keyed", "costmodel/network", "costmodel/stages", "schedules/graph", "schedules/order"},
	"internal/cores":       {},
	"internal/csvfile":     {},
	"internal/fault":       {},
	"internal/files":       {},
	"internal/formula":     {},
	"internal/golden":      {},
	"internal/interrupt":   {},
	"internal/jsonfile":    {"internal/csvfile"},
	"internal/nearest":     {},
	"internal/ordertest":   {"schedules", "schedules/graph", "schedules/order", "schedules/wiring"},
	"internal/ram":         {"internal/units"},
	"internal/setting":     {"internal/nearest", "internal/wrap"},
	"internal/solve":       {},
	"internal/units":       {},
	"internal/wrap":        {},
	"intervals":            {},
	"plans":                {".", "configs", "configs/parallel", "intervals", "costmodel", "costmodel/group", "costmodel/memory", "costmodel/models", "costmodel/network", "costmodel/stages", "reports", "reports/figures", "reports/picture", "reports/titles", "results", "results/rankings", "schedules", "schedules/graph", "schedules/order", "schedules/wiring", "sim"},
	"profiles":             {},
	"published":            {".", "calibrate", "configs", "configs/catalog", "costmodel", "costmodel/group", "costmodel/link", "costmodel/network", "costmodel/training", "intervals", "reports/picture", "results", "schedules/graph"},
	"reports":              {"reports/picture", "reports/table", "results", "results/compare", "results/judged", "results/rankings", "results/tracecsv", "schedules/graph"},
	"reports/chart":        {},
	"reports/figures":      {"reports/chart", "reports/picture", "reports/titles", "results", "results/rankings"},
	"reports/picture":      {"reports/chart", "reports/titles", "results", "results/compare", "results/rankings", "results/tracecsv", "schedules/graph", "schedules/order"},
	"reports/table":        {},
	"reports/titles":       {"configs/catalog", "results"},
	"reports/trace":        {"reports/chart", "results", "results/tracecsv", "schedules/graph"},
	"results":              {"results/tracecsv", "schedules/graph"},
	"results/compare":      {"results", "schedules/graph"},
	"results/rankings":     {"results"},
	"results/schema":       {"results", "results/rankings"},
	"results/tracecsv":     {"schedules/graph"},
	"schedules":            {"schedules/graph", "schedules/order", "schedules/wiring"},
	"schedules/collective": {"schedules/graph"},
	"schedules/graph":      {},
	"schedules/order":      {"schedules/graph"},
	"schedules/partition":  {},
	"schedules/search":     {"schedules", "schedules/graph", "schedules/order"},
	"schedules/wiring":     {"schedules/graph", "schedules/order"},
	"sim":                  {"schedules/graph"},
	"sweep":                {".", "configs", "reports", "reports/figures", "reports/picture", "results", "results/rankings"},
	"tools/exhaustive":     {".", "configs", "plans", "results/rankings"},
	"tools/fit":            {"published"},
	"tools/gallery":        {".", "reports/picture", "results", "schedules", "schedules/graph"},
	"tools/pairs":          {"results"},
	"tools/pytorch":        {"exec/backend", "exec/pytorch", "reports/table"},
	"tools/schema":         {"results/schema"},
	"tools/speed":          {".", "configs", "costmodel", "schedules", "schedules/graph", "schedules/wiring", "sim"},
	"tools/torchsteps":     {".", "exec/backend", "exec/measure", "exec/pytorch", "exec/session"},
}

// owners lists the outside libraries that one folder keeps to itself. TOML is read by three: by configs what users
// write, by courses what psim's own courses are written in, and by launch what torchtitan is started with.
var owners = map[string][]string{
	"github.com/BurntSushi/toml": {"configs", "courses", "launch"},
	"gonum.org/v1/plot":          {"reports"},
	"golang.org/x/image":         {"reports/chart"},
	"google.golang.org/protobuf": {"reports"},
	"golang.org/x/sys":           {"internal"},
	"gonum.org/v1/gonum":         {"calibrate", "intervals"},
	"github.com/spf13/cobra":     {"cmd"},
	"github.com/gomlx/":          {"exec"},

	"github.com/go-json-experiment/json": {"profiles"},
}

// testOnly libraries appear in no program code, but in testPackages, which are what
// tests share.
var (
	testOnly     = []string{"github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak"}
	testPackages = []string{"internal/golden", "internal/ordertest", "exec/exectest"}
)

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goFiles(t) {
		folder := path.Dir(file)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		seen[folder] = true
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if problem := forbidden(folder, name); problem != "" {
				t.Errorf("%s imports %s: %s", file, name, problem)
			}
		}
	}
	for folder := range seen {
		_, known := arrows[folder]
		require.True(t, known || strings.HasPrefix(folder, "cmd/"), "%s is a new package: say in arrows what it may import", folder)
	}
}

// forbidden says why a folder may not import a package, or nothing.
func forbidden(folder, name string) string {
	for _, library := range testOnly {
		if strings.HasPrefix(name, library) && !slices.Contains(testPackages, folder) {
			return "that library is for tests"
		}
	}
	if inside, ok := strings.CutPrefix(name, "psim/"); ok && slices.Contains(testPackages, inside) {
		return "that package is for tests"
	}
	for library, folders := range owners {
		owns := func(owner string) bool { return strings.HasPrefix(folder+"/", owner+"/") }
		if strings.HasPrefix(name, library) && !slices.ContainsFunc(folders, owns) {
			return "only " + strings.Join(folders, " and ") + " may"
		}
	}
	inside, ok := strings.CutPrefix(name, "psim/")
	if name == "psim" {
		inside, ok = ".", true
	}
	if !ok || strings.HasPrefix(folder, "cmd/") {
		return ""
	}
	leaf := strings.HasPrefix(inside, "internal/") && !strings.HasPrefix(folder, "internal/")
	if !leaf && !slices.Contains(arrows[folder], inside) {
		return "the arrows in imports_test.go do not allow it"
	}
	return ""
}

// TestForbidden proves that the rules can be broken.
func TestForbidden(t *testing.T) {
	for _, c := range [][2]string{
		{"sim", "psim/costmodel"}, {"sim", "psim/internal/golden"}, {"cmd/psim", "psim/internal/ordertest"}, {"schedules", "psim/sim"}, {"schedules/graph", "psim/schedules/order"}, {"exec/run", "psim/sim"}, {"exec/measure", "psim"}, {"exec/run", "psim/exec/backend"}, {"reports", "psim/sim"}, {"reports/figures", "psim/courses/coursefile"}, {".", "psim/courses/modes"},
		{"sim", "github.com/BurntSushi/toml"}, {"configs", "gonum.org/v1/plot/vg"}, {"sim", "github.com/stretchr/testify/require"},
		{"internal/units", "psim/schedules"}, {"costmodel", "psim/configs"},
	} {
		require.NotEmpty(t, forbidden(c[0], c[1]), "%s → %s", c[0], c[1])
	}
	for _, c := range [][2]string{
		{"sim", "psim/schedules/graph"}, {"schedules", "psim/internal/units"}, {"cmd/psim", "psim/sim"}, {"reports", "gonum.org/v1/plot/vg"}, {"sim", "fmt"},
	} {
		require.Empty(t, forbidden(c[0], c[1]), "%s → %s", c[0], c[1])
	}
}

// TestPredictionKnowsNoExecution follows the imports of what predicts: it reaches
// neither package exec nor gomlx, however long the way.
func TestPredictionKnowsNoExecution(t *testing.T) {
	imports := map[string][]string{} // of the program code of a folder
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			imports[path.Dir(file)] = append(imports[path.Dir(file)], name)
		}
	}
	seen := map[string]bool{}
	var visit func(folder string)
	visit = func(folder string) {
		seen[folder] = true
		for _, name := range imports[folder] {
			require.False(t, strings.HasPrefix(name, "github.com/gomlx/"), "%s imports %s", folder, name)
			if inside, ok := strings.CutPrefix(name, "psim/"); ok && !seen[inside] {
				visit(inside)
			}
		}
	}
	for _, folder := range []string{".", "plans", "sweep", "advise", "published", "courses/questions"} {
		visit(folder)
	}
	require.True(t, seen["configs"] && seen["sim"] && seen["reports"])
	for folder := range seen {
		require.False(t, folder == "exec" || strings.HasPrefix(folder, "exec/"), "%s is reached", folder)
	}
}

// goFiles lists the Go files of the repository, with slashes.
func goFiles(t *testing.T) []string {
	var files []string
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && d.IsDir() && name != "." { // another module
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	}))
	require.Greater(t, len(files), 50)
	_, err := os.Stat("go.mod")
	require.NoError(t, err, "the test must see the whole repository")
	return files
}
