package cli

const execManual = `exec trains the network of CONFIG for a few steps by running the task graph that
psim run simulates, on devices of this machine. First it times every kind of task
by itself, and predicts the step from these times; then it runs the graph and shows both
side by side, with the error split into its parts.

Devices are the machine's cores (--backend go, gomlx's Go backend), or GPUs
(--backend xla). With --cores-per-worker 1 each device stays on a core of its own, as far
as the system (Linux) can do that. With a larger number N the matrix products of a device
are divided among N cores, but by goroutines of gomlx, which cannot be pinned. psim doctor
lists the backends that work. The [machine] of CONFIG is not used. Training is in fp32, on
synthetic data unless --data names other data. If --gpus differs from CONFIG, a pipeline
gets that many stages, and replicas (ddp, fsdp) keep the samples of each; --set
batch.global sets the total instead. Without CONFIG the example exec, a small GPT-2, runs
with three schedules: model-parallel, gpipe and 1f1b; or with that of --set schedule.name.
Every change that had to be made to CONFIG is a warning of the result.

--processes K divides the devices among K processes of this machine, a block of ranks for
each. mpirun and srun start the processes themselves, on several machines too, with a psim
that is built with MPI: CC=mpicc go build -tags mpi ./cmd/psim. Tensors that pass between
processes are then sent, and measured and predicted as such; weights stay the same to the
bit. The first process prints and writes for all. If a process is lost, the others end
at once; if one does not answer, they end after --stall.

Without MPI, start each process by itself, on any machines: with --rank, --world-size and
--master, or with the variables that torchrun sets, RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT, if all four are there. Flags come first, then mpirun and srun, then the
variables. Rank 0 listens at the master's address, and all processes wait for each other,
for --stall at most. LOCAL_RANK numbers the processes of a machine, and with it chooses
their cores and GPUs. Unless the address is loopback, all need the same secret, in
--token-file or PSIM_TOKEN; what they send is not encrypted.

With --epochs N it trains N whole epochs, after one that warms up and is not counted
(--warmup). An epoch trains on data.samples samples, or on all of --data; its last step
is filled up to a whole one. The result then has the time of an epoch, also by rank, and
the rate, each ± its standard deviation over the epochs (of the population, as numpy's
std). The rate of an epoch is the sum over the replicas of the samples that each has
trained, divided by its own time. --course-rates adds the rate of an epoch by the clock
of the courses, ± its deviation.

--validation N holds out N samples that no replica trains on: of CIFAR-10 the first of
test_batch.bin, of pairs the last lines that are read, of synthetic data additional
samples. Their mean loss, by forward passes alone, without dropout, through the same
graph, is in the result: after every epoch, or after the last measured step.

Measured memory is the ledger's: every device counts the bytes of all tensors that
it holds. Predicted memory follows from the network alone.

The result is "disturbed", with a warning, if steps deviate by more than 8 % or if a
fixed matrix product, timed before and after them, shows that something else runs;
--runs 3 then tries again.

--engine torch trains in PyTorch instead, by the program of psim export torch: in the
Python that PSIM_PYTHON names or, without it, the first with torch (2.8 or later), a
process for every rank, on GPUs or on cores. There PyTorch times every kind of task by
itself, and psim predicts the step from that. Messages and collectives of the step itself
are not timed. --check then compares PyTorch with psim: three steps of plain SGD from the
same weights on the same batch, the gradients of the first (within 1e-5 of the largest of
their tensor), the weights after the last (1e-5), and losses.

--save-gradients DIR writes the gradients of the first step as the CMU course does: for
every rank a dictionary, by the tensors' names, of the gradients that it holds before its
update, averaged over the replicas. With parallel.zero = 3 these are the rank's shares.

--check compares with an unsplit run of the same seed and batches: weights after
the last step (they may differ by 1e-5), output of the second step (1e-4), grads of the
first (1e-5, and bitwise equal on all replicas), and loss, which must also fall. A check
that fails says whether rounding has grown with the steps or a sum is wrong. No unsplit
run equals pipedream: it is compared with a serial replay of the same microbatches with
the same versions of the weights. With --repeat N everything is started and compared N
times, the devices in another order each time; the result says in how many of the N
starts the checks passed, with the largest differences of all.`
