// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two threads and a pair of atomics, under every schedule and every value that the memory model of C11 allows
 * (Relacy, by full search). The orders are arguments, so that one program checks all pairs:
 *
 *	litmus message STORE LOAD	data, then a store; a load that sees it, then the data are read
 *	litmus return STORE LOAD	data are read, then a store; a load that sees it, then they are written
 *	litmus sleep FENCE FENCE	each stores, then loads what the other stores: one of them sees the other
 *	litmus verify FENCE FENCE	who has read what was overwritten finds it declared invalid, behind a fence
 *	litmus claim STORE LOAD		a lock's owner, and who claims it by a barrier in both threads (base/lock.c)
 *	litmus unbarred STORE LOAD	the same without the owner's half of the barrier
 *
 * Exit status 0: it cannot go wrong; 1: it can, and the history of how is printed.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

/* 2019's headers and a compiler of today. */
#pragma GCC diagnostic ignored "-Wall"
#include <relacy/relacy.hpp>

static rl::memory_order first_order, second_order;

struct message : rl::test_suite<message, 2> {
	rl::var<int> data;
	rl::atomic<int> flag;

	void before()
	{
		data($) = 0;
		flag($).store(0, rl::mo_relaxed);
	}

	void thread(unsigned index)
	{
		if (index == 0) {
			data($) = 1;
			flag($).store(1, first_order);
		} else if (flag($).load(second_order)) {
			RL_ASSERT(data($) == 1);
		}
	}
};

struct give_back : rl::test_suite<give_back, 2> {
	rl::var<int> data;
	rl::atomic<int> flag;

	void before()
	{
		data($) = 1;
		flag($).store(0, rl::mo_relaxed);
	}

	void thread(unsigned index)
	{
		if (index == 0) {
			RL_ASSERT(data($) == 1);
			flag($).store(1, first_order);
		} else if (flag($).load(second_order)) {
			data($) = 2;
		}
	}
};

struct go_to_sleep : rl::test_suite<go_to_sleep, 2> {
	rl::atomic<int> stored[2];
	int seen[2];

	void before()
	{
		for (int i = 0; i < 2; i++) {
			stored[i]($).store(0, rl::mo_relaxed);
			seen[i] = 0;
		}
	}

	void thread(unsigned index)
	{
		stored[index]($).store(1, rl::mo_relaxed);
		rl::atomic_thread_fence(index ? second_order : first_order, $);
		seen[index] = stored[!index]($).load(rl::mo_relaxed);
	}

	void after()
	{
		RL_ASSERT(seen[0] || seen[1]);
	}
};

struct verify : rl::test_suite<verify, 2> {
	rl::atomic<int> data, alive;

	void before()
	{
		data($).store(1, rl::mo_relaxed);
		alive($).store(1, rl::mo_relaxed);
	}

	void thread(unsigned index)
	{
		if (index == 0) {
			int read = data($).load(rl::mo_relaxed);

			rl::atomic_thread_fence(first_order, $);
			RL_ASSERT(read == 1 || !alive($).load(rl::mo_relaxed));
		} else {
			alive($).store(0, rl::mo_relaxed);
			rl::atomic_thread_fence(second_order, $);
			data($).store(2, rl::mo_relaxed);
		}
	}
};

/*
 * The owner stores inside, without a fence, and looks for a claim; who claims says so and looks at inside. The barrier
 * interrupts the owner between any two of these, and is a fence there: @at is where.
 */
template <bool barred> struct claim : rl::test_suite<claim<barred>, 2> {
	rl::atomic<int> inside, claimed;
	rl::var<int> data;
	HANDLE asked, done;
	int at;

	void before()
	{
		inside($).store(0, rl::mo_relaxed);
		claimed($).store(0, rl::mo_relaxed);
		data($) = 0;
		asked = CreateEvent(0, 0, 0, 0);
		done = CreateEvent(0, 0, 0, 0);
		at = rl::rand(4);
	}

	void after()
	{
		CloseHandle(asked);
		CloseHandle(done);
	}

	void barrier(int here)
	{
		if (here != at)
			return;
		WaitForSingleObject(asked, INFINITE);
		rl::atomic_thread_fence(rl::mo_seq_cst, $);
		SetEvent(done);
	}

	void thread(unsigned index)
	{
		if (index == 0) {
			if (barred)
				barrier(0);
			inside($).store(1, rl::mo_relaxed);
			if (barred)
				barrier(1);
			bool entered = !claimed($).load(rl::mo_relaxed);

			if (barred)
				barrier(2);
			if (entered)
				data($) = 1;
			inside($).store(0, first_order);
			if (barred)
				barrier(3);
		} else {
			claimed($).store(1, rl::mo_relaxed);
			rl::atomic_thread_fence(rl::mo_seq_cst, $);
			if (barred) {
				SetEvent(asked);
				WaitForSingleObject(done, INFINITE);
			}
			if (!inside($).load(second_order))
				data($) = 2;
		}
	}
};

static rl::memory_order order_of(const char *name)
{
	static const struct { const char *name; rl::memory_order order; } rows[] = {
		{ "relaxed", rl::mo_relaxed }, { "acquire", rl::mo_acquire }, { "release", rl::mo_release },
		{ "acq_rel", rl::mo_acq_rel }, { "seq_cst", rl::mo_seq_cst },
	};

	for (const auto &row : rows)
		if (!strcmp(row.name, name))
			return row.order;
	fprintf(stderr, "litmus: no order '%s'\n", name);
	exit(2);
}

template <typename Test> static int run()
{
	rl::test_params params;

	params.search_type = rl::sched_full;
	params.iteration_count = 1000000;
	return rl::simulate<Test>(params) ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	first_order = order_of(argv[2]);
	second_order = order_of(argv[3]);
	if (!strcmp(argv[1], "message"))
		return run<message>();
	if (!strcmp(argv[1], "return"))
		return run<give_back>();
	if (!strcmp(argv[1], "sleep"))
		return run<go_to_sleep>();
	if (!strcmp(argv[1], "verify"))
		return run<verify>();
	if (!strcmp(argv[1], "claim"))
		return run<claim<true>>();
	if (!strcmp(argv[1], "unbarred"))
		return run<claim<false>>();
	return 2;
}
