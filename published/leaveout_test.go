package published

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// savedConstants are the constants of leave_out_constants.csv, each with its fit.
func savedConstants(t *testing.T) (list []leftConstant) {
	t.Helper()
	fits, err := stackFits()
	require.NoError(t, err)
	saved := records(leftConstantsFile)
	runs, err := runsBySource()
	require.NoError(t, err)
	for _, of := range runs {
		for i := range fits {
			f := &fits[i]
			left, others, err := f.left(of.source)
			require.NoError(t, err)
			if !others {
				continue
			}
			constants := []leftConstant{}
			if len(left) == 0 {
				constants, err = f.unfitted(of.source)
				require.NoError(t, err)
			} else {
				for _, key := range f.Keys {
					constants = append(constants, leftConstant{source: of.source, key: key, fit: f, text: saved[len(list)+len(constants)].text("value"), rows: len(left)})
				}
			}
			for _, c := range constants {
				require.Less(t, len(list), len(saved), "write with: make leave-out")
				r := saved[len(list)]
				require.Equal(t,
					[]string{c.source, f.Stack, f.Chip, c.key, c.text, fmt.Sprint(c.rows)},
					[]string{r.text("source"), r.text("stack"), r.text("chip"), r.text("key"), r.text("value"), r.text("rows")}, "write with: make leave-out")
				list = append(list, c)
			}
		}
	}
	require.Len(t, saved, len(list), "write with: make leave-out")
	return list
}

// leave_out.csv has every training run that counts, as the code predicts it today with constants that
// have not seen its source: those of leave_out_constants.csv, which are of every fit with rows of it.
func TestLeaveOut(t *testing.T) {
	constants := savedConstants(t)
	runs, err := runsBySource()
	require.NoError(t, err)
	saved, fitted := records(leftRowsFile), map[string]bool{}
	for _, c := range constants {
		fitted[c.source] = true
	}
	today, err := replayed()
	require.NoError(t, err)
	byLabel := map[string]DataPoint{}
	for _, table := range today.Tables {
		for _, row := range table.Replayed {
			byLabel[table.Name+"\n"+row.Label] = row
		}
	}
	for _, of := range runs {
		var points []DataPoint
		if fitted[of.source] {
			points, err = of.leftOut(t.Context(), constants)
			require.NoError(t, err)
		}
		for i, r := range of.rows {
			require.NotEmpty(t, saved, "write with: make leave-out")
			s := saved[0]
			saved = saved[1:]
			p := byLabel[r.table.Name+"\n"+s.text("row")]
			if points != nil {
				p = points[i]
			}
			require.Equal(t, []string{of.source, r.table.Name, p.Label, p.Site}, []string{s.text("source"), s.text("table"), s.text("row"), s.text("site")})
			require.InEpsilon(t, p.Published, s.number("published"), 1e-5)
			require.InEpsilon(t, p.Predicted, s.number("predicted"), 1e-5, "%s: write with: make leave-out", p.Label)
		}
	}
	require.Empty(t, saved)
}

// Constants that were fitted without a source come as close to the rows that are left as any a tenth away.
func TestLeftConstantsAreFitted(t *testing.T) {
	long(t)
	constants := savedConstants(t)
	for first := 0; first < len(constants); {
		f, source := constants[first].fit, constants[first].source
		if constants[first].rows == 0 {
			first++
			continue
		}
		left := *f
		var err error
		left.rows, _, err = f.left(source)
		require.NoError(t, err)
		at, err := f.catalog()
		require.NoError(t, err)
		for i := range at {
			_, err := fmt.Sscanf(constants[first+i].text, "%g", &at[i].value)
			require.NoError(t, err)
		}
		x := make([]float64, len(at))
		best := left.misfit(at, x)
		for i, c := range at {
			for _, by := range []float64{-0.1, 0.1} {
				x[i] = by
				require.Greater(t, left.misfit(at, x), best-0.0005, "%s without %s: %s", f.Stack, source, c.key)
				x[i] = 0
			}
		}
		first += len(at)
	}
}
