# /shared/ann/175b/slurm/shard.sh
#!/bin/bash
#SBATCH --signal=B:TERM@60
#SBATCH --partition=cpu
#SBATCH --time=2:00:00
#SBATCH --output=/dev/null
# A shard of 16: $1 is the number of the array's task 0. Written by psim.
psim=/shared/bin/psim
folder=/shared/ann/175b
shard=$((${1:-1} + SLURM_ARRAY_TASK_ID)) node=${SLURMD_NODENAME:-$(hostname)}
exec >"$folder/slurm/shard-$shard.log" 2>&1
rm -f "$folder/slurm/shard-$shard.end"
end() {
	new=$folder/slurm/.end-$shard-$SLURM_JOB_ID
	{ echo "$1 $SECONDS $node" && times; } >"$new" && mv "$new" "$folder/slurm/shard-$shard.end"
	exit "$1"
}
version=$("$psim" version)
if [ "$version" != 'psim 0.1.0 go1.26.8 linux/amd64' ]; then
	echo "psim: node $node has ${version:-no psim that runs}, but the job was submitted by "'psim 0.1.0 go1.26.8 linux/amd64'
	end 2
fi
cd /home/ann/runs || end 1
export GOMAXPROCS=${SLURM_CPUS_ON_NODE:-1}
trap 'kill -TERM "$running"' TERM
"$psim" search megatron-175b --devices=1024 \
	--shard "$shard/16" --out "$folder/parts" &
running=$!
wait "$running"
code=$?
while kill -0 "$running" 2>/dev/null; do
	wait "$running"
	code=$?
done
end "$code"

# /shared/ann/175b/slurm/merge.sh
#!/bin/bash
#SBATCH --partition=cpu
#SBATCH --time=2:00:00
#SBATCH --output=/dev/null
# Merges the shards: $1 counts how often it is tried. Written by psim.
psim=/shared/bin/psim
folder=/shared/ann/175b
export GOMAXPROCS=${SLURM_CPUS_ON_NODE:-1}
new=$folder/slurm/.answer-$SLURM_JOB_ID
{ "$psim" status "$folder" --merge="${1:-1}" &&
	"$psim" merge "$folder/parts" --out "$folder" --quiet; } >"$new" 2>&1
code=$?
mv "$new" "$folder/answer.txt"
exit "$code"

# sbatch --parsable --job-name=psim-8b93bb03-1 --array=0-15 /shared/ann/175b/slurm/shard.sh 1
# sbatch --parsable --job-name=psim-8b93bb03-merge --dependency=afterany:ID /shared/ann/175b/slurm/merge.sh 1
