package slurm

import (
	"fmt"
	"strings"
)

// Quoted returns a word as the shell reads it, whatever is in it.
func Quoted(word string) string {
	special := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("-_=./:+,@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quotedAll(words []string) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = Quoted(word)
	}
	return strings.Join(list, " ")
}

// command returns the command line of all shards together, for people.
func (s *Submission) command() string {
	return strings.TrimSpace(fmt.Sprintf("psim %s %s", s.Verb, quotedAll(s.Args)))
}

// head begins a script: what Slurm reads, and the places.
func (s *Submission) head(what string, directives ...string) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, option := range [][2]string{{"partition", s.Partition}, {"time", s.Time}} {
		if option[1] != "" {
			directives = append(directives, "--"+option[0]+"="+option[1])
		}
	}
	for _, d := range append(directives, "--output=/dev/null") {
		fmt.Fprintf(&b, "#SBATCH %s\n", d)
	}
	fmt.Fprintf(&b, "# %s. Written by psim.\npsim=%s\nfolder=%s\n",
		what, Quoted(s.Program), Quoted(s.Folder))
	return b.String()
}

// shardScript returns the script of a task of the array. Slurm's signal comes to the shell, a minute before the time is
// over; psim then keeps what it has found. The exit code is noted last, and whole.
func (s *Submission) shardScript() string {
	return s.head(
		fmt.Sprintf("A shard of %d: $1 is the number of the array's task 0", s.Shards), "--signal=B:TERM@60",
	) + fmt.Sprintf(`shard=$((${1:-1} + SLURM_ARRAY_TASK_ID)) node=${SLURMD_NODENAME:-$(hostname)}
exec >"$folder/slurm/shard-$shard.log" 2>&1
rm -f "$folder/slurm/shard-$shard.end"
end() {
	new=$folder/slurm/.end-$shard-$SLURM_JOB_ID
	{ echo "$1 $SECONDS $node" && times; } >"$new" && mv "$new" "$folder/slurm/shard-$shard.end"
	exit "$1"
}
version=$("$psim" version)
if [ "$version" != %s ]; then
	echo "psim: node $node has ${version:-no psim that runs}, but the job was submitted by "%[1]s
	end 2
fi
cd %s || end 1
export GOMAXPROCS=${SLURM_CPUS_ON_NODE:-1}
trap 'kill -TERM "$running"' TERM
"$psim" %s %s \
	--shard "$shard/%d" --out "$folder/parts" &
running=$!
wait "$running"
code=$?
while kill -0 "$running" 2>/dev/null; do
	wait "$running"
	code=$?
done
end "$code"
`, Quoted(s.Version), Quoted(s.Work), s.Verb, quotedAll(s.Args), s.Shards)
}

// mergeScript returns the script of the job that merges. If shards are missing, it submits them again, and says so in
// place of the answer.
func (s *Submission) mergeScript() string {
	merge := "--quiet"
	if len(s.Merge) > 0 {
		merge = quotedAll(s.Merge) + " " + merge
	}
	head := s.head("Merges the shards: $1 counts how often it is tried")
	return head + fmt.Sprintf(`export GOMAXPROCS=${SLURM_CPUS_ON_NODE:-1}
new=$folder/slurm/.answer-$SLURM_JOB_ID
{ "$psim" status "$folder" --merge="${1:-1}" &&
	"$psim" merge "$folder/parts" --out "$folder" %s; } >"$new" 2>&1
code=$?
mv "$new" "$folder/answer.txt"
exit "$code"
`, merge)
}

// Scripts prints the scripts and the commands that submit them, and does nothing else. most is Slurm's
// MaxArraySize, 0 if it is not known.
func (s *Submission) Scripts(most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n%s\n", s.inside("shard.sh"), s.shardScript())
	fmt.Fprintf(&b, "# %s\n%s\n", s.inside("merge.sh"), s.mergeScript())
	var after strings.Builder
	blocks := blocksOf(s.all(), most)
	for i, block := range blocks {
		fmt.Fprintf(&b, "# sbatch %s\n", quotedAll(s.arrayArgs(block)))
		fmt.Fprintf(&after, ":ID")
		if len(blocks) > 1 {
			fmt.Fprint(&after, i+1)
		}
	}
	fmt.Fprintf(&b, "# sbatch %s\n", quotedAll(s.mergeArgs("afterany"+after.String(), 1)))
	return b.String()
}

// all lists the numbers of all shards.
func (s *Submission) all() []int {
	list := make([]int, s.Shards)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

// A block is the part of the shards that one array has: shard first is its task 0.
type block struct {
	first int
	tasks []int // of the array, ascending
}

// blocksOf divides shards, in ascending order, among arrays with a largest number of tasks.
func blocksOf(shards []int, most int) (blocks []block) {
	for _, n := range shards {
		first := 1
		if most > 0 {
			first = (n-1)/most*most + 1
		}
		if len(blocks) == 0 || blocks[len(blocks)-1].first != first {
			blocks = append(blocks, block{first: first})
		}
		last := &blocks[len(blocks)-1]
		last.tasks = append(last.tasks, n-first)
	}
	return blocks
}

// indices writes the tasks of a block as sbatch reads them: 0-3,7.
func (b block) indices() string {
	var list []string
	for i := 0; i < len(b.tasks); {
		end := i
		for end+1 < len(b.tasks) && b.tasks[end+1] == b.tasks[end]+1 {
			end++
		}
		if end == i {
			list = append(list, fmt.Sprint(b.tasks[i]))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", b.tasks[i], b.tasks[end]))
		}
		i = end + 1
	}
	return strings.Join(list, ",")
}

// arrayArgs returns the arguments of sbatch for a block of shards.
func (s *Submission) arrayArgs(b block) []string {
	return []string{
		"--parsable", fmt.Sprintf("--job-name=%s-%d", s.name(), b.first), "--array=" + b.indices(),
		s.inside("shard.sh"), fmt.Sprint(b.first),
	}
}

// mergeArgs returns the arguments of sbatch for the job that merges. The dependency may be empty.
func (s *Submission) mergeArgs(dependency string, try int) []string {
	args := []string{"--parsable", "--job-name=" + s.name() + "-merge"}
	if dependency != "" {
		args = append(args, "--dependency="+dependency)
	}
	return append(args, s.inside("merge.sh"), fmt.Sprint(try))
}
