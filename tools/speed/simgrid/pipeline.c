/* One step of 1F1B in SimGrid, to compare speeds: an actor for every rank, which sleeps
   while it computes and exchanges empty messages with its neighbours. It prints the time
   of the step.

   usage: pipeline PLATFORM RANKS MICROBATCHES */
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <stdio.h>
#include <stdlib.h>

static int ranks, microbatches;
static sg_mailbox_t *forward, *backward; /* by receiver */
static char token;

static void give(sg_mailbox_t *to, int rank) {
  if (rank >= 0 && rank < ranks)
    sg_comm_detach(sg_mailbox_put_init(to[rank], &token, 0), NULL);
}

static void compute_forward(int rank) {
  if (rank > 0)
    sg_mailbox_get(forward[rank]);
  sg_actor_sleep_for(0.010);
  give(forward, rank + 1);
}

static void compute_backward(int rank) {
  if (rank < ranks - 1)
    sg_mailbox_get(backward[rank]);
  sg_actor_sleep_for(0.020);
  give(backward, rank - 1);
}

static void run(int argc, char *argv[]) {
  int rank = atoi(argv[argc - 1]);
  int ahead = ranks - 1 - rank < microbatches ? ranks - 1 - rank : microbatches;
  for (int m = 0; m < microbatches + ahead; m++) {
    if (m < microbatches)
      compute_forward(rank);
    if (m >= ahead)
      compute_backward(rank);
  }
}

int main(int argc, char *argv[]) {
  simgrid_init(&argc, argv);
  simgrid_load_platform(argv[1]);
  ranks = atoi(argv[2]);
  microbatches = atoi(argv[3]);
  forward = calloc(ranks, sizeof *forward);
  backward = calloc(ranks, sizeof *backward);
  for (int r = 0; r < ranks; r++) {
    char name[32];
    snprintf(name, sizeof name, "F%d", r);
    forward[r] = sg_mailbox_by_name(name);
    snprintf(name, sizeof name, "B%d", r);
    backward[r] = sg_mailbox_by_name(name);
  }
  for (int r = 0; r < ranks; r++) {
    char host[32], number[16];
    snprintf(host, sizeof host, "rank-%d", r);
    snprintf(number, sizeof number, "%d", r);
    const char *arguments[] = {"rank", number, NULL};
    sg_actor_create("rank", sg_host_by_name(host), run, 2, (char *const *)arguments);
  }
  simgrid_run();
  printf("%.3f\n", simgrid_get_clock());
  return 0;
}
