/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong programs: wrong CASE. ThreadSanitizer must name the line that has "WRONG: CASE". */
#include "program.h"

static void send_early(void)
{
	make_ends(NULL);
	post_recv(ends[1].qp, &ends[1].in, 0);
	post_send(ends[0].qp, &ends[0].out);
	ends[0].out.data[100] = 1;	/* WRONG: send_early */
	poll_one(ends[0].cq);
	drop_ends();
}

static void recv_early(void)
{
	make_ends(NULL);
	post_recv(ends[1].qp, &ends[1].in, 0);
	post_send(ends[0].qp, &ends[0].out);
	poll_one(ends[0].cq);
	sum += ends[1].in.data[BYTES - 1];	/* WRONG: recv_early */
	poll_one(ends[1].cq);
	drop_ends();
}

static void read_early(void)
{
	make_ends(NULL);
	post_kind(1, ends[0].qp, &ends[0].out, &ends[1].in);
	sum += ends[0].out.data[9];	/* WRONG: read_early */
	poll_one(ends[0].cq);
	drop_ends();
}

static void atomic_early(void)
{
	make_ends(NULL);
	post_kind(2, ends[0].qp, &ends[0].out, &ends[1].in);
	sum += ends[0].out.data[7];	/* WRONG: atomic_early */
	poll_one(ends[0].cq);
	drop_ends();
}

static void write_early(void)
{
	make_ends(NULL);
	post_kind(0, ends[0].qp, &ends[0].out, &ends[1].in);
	ends[0].out.data[64] = 1;	/* WRONG: write_early */
	poll_one(ends[0].cq);
	drop_ends();
}

/* The completion is one of another queue. */
static void other_completion(void)
{
	make_ends(NULL);
	post_recv(ends[0].qp, &ends[0].in, 0);
	post_recv(ends[1].qp, &ends[1].in, 0);
	post_send(ends[1].qp, &ends[1].out);
	poll_one(ends[1].cq);
	post_send(ends[0].qp, &ends[0].out);
	poll_one(ends[1].cq);
	sum += ends[0].in.data[0];	/* WRONG: other_completion */
	drop_ends();
}

/* Of two requests the first has completed. */
static void second_send(void)
{
	make_ends(NULL);
	post_kind(0, ends[0].qp, &ends[0].in, &ends[1].in);
	post_kind(0, ends[0].qp, &ends[0].out, &ends[1].in);
	poll_one(ends[0].cq);
	ends[0].in.data[0] = 1;
	ends[0].out.data[0] = 1;	/* WRONG: second_send */
	poll_one(ends[0].cq);
	drop_ends();
}

static _Atomic int turn;

/* One buffer, two threads, and nothing that orders them: a relaxed variable does not. */
static void *share(void *argument)
{
	intptr_t who = (intptr_t)argument;

	while (atomic_load_explicit(&turn, memory_order_relaxed) != who)
		;
	ends[0].out.data[3] = (unsigned char)who;	/* WRONG: shared_buffer */
	post_kind(0, ends[who].qp, &ends[0].out, &ends[1].in);
	poll_one(ends[who].cq);
	atomic_store_explicit(&turn, 1, memory_order_relaxed);
	return NULL;
}

static void shared_buffer(void)
{
	pthread_t thread[2];

	make_ends(NULL);
	for (intptr_t i = 0; i < 2; i++)
		thread[i] = start(share, (void *)i);
	join(thread[0]);
	join(thread[1]);
	drop_ends();
}

static void srq_early(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	CHECK(srq);
	make_ends(srq);
	post_srq(srq, &ends[1].in, 0);
	sum += ends[1].in.data[0];	/* WRONG: srq_early */
	drop_ends();
	CHECK(!ibv_destroy_srq(srq));
}

static void extended_early(void)
{
	make_extended();
	build_write(&built_from[0]);
	built_from[0].data[1] = 1;	/* WRONG: extended_early */
	poll_extended();
	ibv_end_poll(read_ex);
	drop_extended();
}

static void freed_early(void)
{
	make_ends(NULL);
	post_recv(ends[1].qp, &ends[1].in, 0);
	free(ends[1].in.data);	/* WRONG: freed_early */
	ends[1].in.data = NULL;
	drop_ends();
}

static void *polls_too_late(void *unused)
{
	while (!atomic_load_explicit(&turn, memory_order_relaxed))
		;
	sum += ends[1].in.data[2];	/* WRONG: told_by_another */
	return NULL;
}

/* The thread that polled does not hand over what it got. */
static void told_by_another(void)
{
	pthread_t thread;

	make_ends(NULL);
	thread = start(polls_too_late, NULL);
	post_recv(ends[1].qp, &ends[1].in, 0);
	post_send(ends[0].qp, &ends[0].out);
	poll_one(ends[0].cq);
	poll_one(ends[1].cq);
	atomic_store_explicit(&turn, 1, memory_order_relaxed);
	join(thread);
	drop_ends();
}

static const struct program_case cases[] = {
	CASE(send_early),
	CASE(recv_early),
	CASE(read_early),
	CASE(atomic_early),
	CASE(write_early),
	CASE(other_completion),
	CASE(second_send),
	CASE(shared_buffer),
	CASE(srq_early),
	CASE(extended_early),
	CASE(freed_early),
	CASE(told_by_another),
};

int main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
