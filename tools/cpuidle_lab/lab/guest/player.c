// SPDX-License-Identifier: GPL-2.0
/*
 * player - plays a clone: a thread or a process for each task of a recorded workload
 *
 *	player FILE SHIFT_NS MARK
 *
 * A thread runs for so many instructions, posts to another, waits for a post,
 * sleeps, or reads and writes at the ends of pipes and sockets. Posts are
 * counted, so none is lost where the order changes. Lanes of a thread are served
 * as their ends become readable and their timers expire. MARK
 * is written to the trace where the workload begins, "phase end" where it ends.
 * It begins at the recorded distance from a tick, and SHIFT_NS later.
 *
 * docs/clone.md has the format of FILE. cpuidle-lab has checked it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASKS_MAX	2000
#define JOINTS_MAX	400
#define GATES_MAX	1000
/* Lanes of a task, and bytes of a call. */
#define LANES_MAX	(JOINTS_MAX + 1)
#define BYTES_MAX	65536
#define FILES_MAX	8192
#define PAGE_BYTES	4096
#define STACK_BYTES	(64 << 10)
#define NS_PER_S	1000000000ULL
#define NS_PER_MS	1000000ULL
#define TICK_NS		4000000ULL
#define REALTIME_BELOW	100
#define BLANKS		"\n "
#define EARLY		"early"
#define LATE		"late"
#define SKIP		"skip"
#define SYNC		"sync"
#define PINNED		"pinned"
#define PROCESS		"process"
#define RESIDENT	"resident"
#define MARKER		"/sys/kernel/tracing/trace_marker"
/* A phase that takes so many times the recorded one is stuck. */
#define PATIENCE	4
#define CONSOLE		"/dev/console"
#define TIMERS		"/proc/timer_list"
#define THRESHOLD	"/proc/sys/kernel/watchdog_thresh"
#define GOVERNOR	"/sys/devices/system/cpu/cpuidle/current_governor"
/*
 * The tasks get up so long before the beginning, or up to a tick earlier. A grace
 * period of RCU takes longer, so a CPU with work for its end has a tick until then.
 */
#define READY_NS	4000000ULL
/* Until then all have started. */
#define START_NS	50000000ULL
#define FORK_NS		1000000ULL
/* The beginning is marked so long before it, lest the mark delays the tasks. */
#define MARK_NS		100000ULL
/* The console is told so long before it: the line takes less. */
#define SAY_NS		1000000ULL
/*
 * The watchdog's threshold as the kernel has it, and period by a threshold of 1. A
 * switch of governors waits for a grace period of RCU.
 */
#define USUAL		10U
#define PERIOD_NS	(400 * NS_PER_MS)
#define SWITCH_NS	(4 * TICK_NS)
#define AHEAD_NS	(SWITCH_NS + READY_NS + TICK_NS / 2)
/* To set the threshold takes less. */
#define RESTART_NS	(50 * NS_PER_MS)
/* A second and some ticks; and bits of a count of turns. */
#define HALVED_NS	(NS_PER_S + 5 * TICK_NS)
#define TURNS_BITS	8
#define DEFAULT_SLACK_NS	50000UL
/* Between two looks whether all processes have ended. */
#define REST_US		1000

enum kind {
	RUN, POST, WAIT, SLEEP, UNTIL, SLACK, END, READ, WRITE, LANE, ON, AFTER,
	AGAIN, RCU, FORK, REAP, EXIT, OPEN, PASS, KINDS
};

static const char *const words[KINDS] = {
	"run", "post", "wait", "sleep", "until", "slack", "end", "read", "write",
	"lane", "on", "after", "again", "rcu", "fork", "reap", "exit",
	"open", "pass",
};

/**
 * struct step - one step of a task
 * @kind: one of words[]
 * @early: a post ends the sleep, and stays
 * @late: the task does not sleep if its time has passed
 * @skip: it is left out, with the work behind it, if its time had passed when
 *	the task last got up from such a sleep
 * @sync: the post that ends the wait is a write to the task's pipe, at which
 *	the scheduler expects that the poster sleeps soon
 * @end: that a read or a write uses
 * @value: ns; of a post the target; bytes of a read or a write; an end
 */
struct step {
	enum kind kind;
	bool early;
	bool late;
	bool skip;
	bool sync;
	unsigned int end;
	uint64_t value;
};

/**
 * struct lane - steps of a task that begin when their end is readable
 * @next: step to do next
 * @stop: behind the last one
 * @again: where it begins again; 0: nowhere
 * @ready: the end has become readable
 * @timed: it has timers, so it reads the clock, which is a call in the lab
 * @last_ns: end of the last call of a timed lane
 */
struct lane {
	size_t next;
	size_t stop;
	size_t again;
	bool ready;
	bool timed;
	uint64_t last_ns;
};

/**
 * struct task - a task, and the posts to it
 * @posts: how many it has not taken; -1 while it waits. The futex.
 * @reads: it waits at its pipe, not at the futex
 * @steps: in their order
 * @count: number of steps
 * @room: steps that fit
 * @priority: the kernel's, real-time below REALTIME_BELOW
 * @cpu: where it begins
 * @pinned: where it stays
 * @process: it has memory of its own, which its exit frees
 * @resident: it ran before the program began
 * @forked: another task starts it
 * @pid: of a process that was started
 * @pipe: its ends to read and to write; 0, 0: there is none
 * @name: in recordings
 */
struct task {
	atomic_int posts;
	atomic_bool reads;
	struct step *steps;
	size_t count;
	size_t room;
	long priority;
	long cpu;
	bool pinned;
	bool process;
	bool resident;
	bool forked;
	_Atomic pid_t pid;
	int pipe[2];
	char name[24];
} __attribute__((aligned(64)));

/**
 * struct shared - memory of all processes
 * @called: the tasks get up for the beginning. A futex.
 * @rest: nothing ends it. A futex.
 * @begin_ns: of the phase
 * @ended: the workload has ended. A futex.
 * @failed: a task could not be played
 * @main: the process that plays all threads
 * @tasks: all of them
 */
struct shared {
	atomic_int called;
	atomic_int rest;
	uint64_t begin_ns;
	atomic_int ended;
	atomic_bool failed;
	pid_t main;
	struct task tasks[TASKS_MAX];
};

static struct shared *shared;
static struct task *tasks;
static unsigned long task_count;
static uint64_t length_ns, start_ns, begin_ns, watchdog_ns = UINT64_MAX;
static cpu_set_t all_cpus;
/* Files of the ends: of joint n those of numbers 2 n and 2 n + 1. */
static int ends[2 * JOINTS_MAX];
/* A gate is a pipe. */
static int gates[GATES_MAX][2];
static unsigned long joint_count;
static char bytes[BYTES_MAX];

static void end_processes(void);
static void end_all(void);

static void die(const char *what)
{
	fprintf(stderr, "player: %s\n", what);
	if (shared) {
		shared->failed = true;
		end_all();
		if (getpid() == shared->main)
			end_processes();
	}
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec) {
		.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S),
	};
}

static void sleep_ns(int flags, uint64_t ns)
{
	const struct timespec time = time_of(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, flags, &time, NULL) == EINTR)
		;
}

/* Returns false once the time is up; @end_ns 0 is never. */
static bool futex_wait(atomic_int *word, int value, uint64_t end_ns)
{
	const struct timespec end = time_of(end_ns);

	return !syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value,
			end_ns ? &end : NULL, NULL, FUTEX_BITSET_MATCH_ANY) ||
	       errno != ETIMEDOUT;
}

static void futex_wake(atomic_int *word, int most)
{
	syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

static void post(struct task *task)
{
	if (atomic_fetch_add(&task->posts, 1) >= 0)
		return;
	if (!atomic_load(&task->reads))
		futex_wake(&task->posts, 1);
	else if (write(task->pipe[1], "", 1) != 1)
		die("cannot write to a task's pipe");
}

static void wait_sync(struct task *task)
{
	char byte;

	atomic_store(&task->reads, true);
	if (atomic_fetch_sub(&task->posts, 1) <= 0 && read(task->pipe[0], &byte, 1) != 1)
		die("cannot read from a task's pipe");
	atomic_store(&task->reads, false);
}

/* A timer that expires before the post wakes the thread, which waits on. */
static void wait_post(struct task *task, uint64_t timer_ns)
{
	uint64_t end_ns;

	if (atomic_fetch_sub(&task->posts, 1) > 0)
		return;
	end_ns = timer_ns ? now_ns() + timer_ns : 0;
	while (atomic_load(&task->posts) < 0)
		if (!futex_wait(&task->posts, -1, end_ns))
			end_ns = 0;
}

/* Sleeps until a time or a post, which the next wait takes. */
static void sleep_or_post(struct task *task, uint64_t end_ns)
{
	int waiting = -1;

	if (atomic_fetch_sub(&task->posts, 1) <= 0)
		while (atomic_load(&task->posts) < 0)
			if (!futex_wait(&task->posts, -1, end_ns))
				break;
	if (!atomic_compare_exchange_strong(&task->posts, &waiting, 0))
		atomic_fetch_add(&task->posts, 1);
}

/* An open gate has a byte in it, which no task reads: it wakes all. */
static void pass(int gate)
{
	struct pollfd one = { .fd = gate, .events = POLLIN };

	while (poll(&one, 1, -1) < 0)
		if (errno != EINTR)
			die("a gate cannot be polled");
}

/* Two instructions a turn; in virtual time one takes 1 ns. */
static void work(uint64_t instructions)
{
	uint64_t turns = instructions / 2;

	if (turns)
		asm volatile("1:\tdec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
}

static void transfer(const struct step *step)
{
	size_t left = step->value, size;
	ssize_t done;

	do {
		size = left < BYTES_MAX ? left : BYTES_MAX;
		if (step->kind == READ)
			done = read(ends[step->end], bytes, size);
		else
			done = write(ends[step->end], bytes, size);
		if (done <= 0)
			die("a pipe or socket fails");
		left -= (size_t)done;
	} while (left);
}

/* Returns whether the file took it; a file that is not there, or not ours, does not. */
static bool write_to(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	bool took;

	if (file < 0)
		return false;
	took = write(file, text, strlen(text)) >= 0;
	close(file);
	return took;
}

static void mark(const char *text)
{
	if (!write_to(MARKER, text) && !access(MARKER, W_OK))
		die("cannot write to " MARKER);
}

/* A phase under another governor than its mark names would be a wrong figure. */
static void govern(const char *name)
{
	char text[128];

	if (write_to(GOVERNOR, name))
		return;
	snprintf(text, sizeof(text), "the kernel refuses the governor '%s'", name);
	die(text);
}

static void end_all(void)
{
	atomic_store(&shared->ended, 1);
	futex_wake(&shared->ended, 1);
}

static void finish(void)
{
	mark("phase end");
	end_all();
}

static void play_steps(struct task *me);

static void stay_on(cpu_set_t *set, const struct task *me)
{
	CPU_ZERO(set);
	CPU_SET((size_t)me->cpu, set);
	/* A machine with fewer CPUs takes the task anywhere. */
	sched_setaffinity(0, sizeof(*set), set);
}

static void set_policy(const struct task *me)
{
	bool realtime = me->priority < REALTIME_BELOW;
	struct sched_param param = {
		.sched_priority = realtime ? (int)(REALTIME_BELOW - 1 - me->priority) : 0,
	};

	if (sched_setscheduler(0, realtime ? SCHED_FIFO : SCHED_OTHER, &param))
		die("a task cannot be real-time");
}

/* A child has slack, CPUs and policy of its parent. */
static void settle(const struct task *me, const struct task *parent)
{
	cpu_set_t one;

	prctl(PR_SET_TIMERSLACK, DEFAULT_SLACK_NS);
	if (me->pinned)
		stay_on(&one, me);
	else if (parent->pinned)
		sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
	if (me->priority != parent->priority)
		set_policy(me);
}

/* The parent is NULL at the beginning. */
static void start_process(struct task *task, const struct task *parent)
{
	pid_t child;

	if (atomic_load(&shared->ended))
		return;
	/* fork() writes to the stack of each thread, so the child would copy them. */
	child = _Fork();
	if (child < 0)
		die("cannot make a process");
	if (child) {
		task->pid = child;
		return;
	}
	task->pid = getpid();
	if (atomic_load(&shared->ended))
		_exit(0);
	prctl(PR_SET_NAME, task->name);
	if (parent)
		settle(task, parent);
	play_steps(task);
	_exit(0);
}

/* Another process may get the number. */
static void forget(pid_t pid)
{
	unsigned long i;

	for (i = 0; i < task_count; i++)
		if (tasks[i].pid == pid)
			tasks[i].pid = 0;
}

/* The exits of other children woke no task, as their parent did not sleep. */
static void reap_others(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG | __WNOTHREAD)) > 0)
		forget(pid);
}

/* An exit of any child wakes its parent. To wait for one alone would miss the others'. */
static void reap(struct task *task)
{
	pid_t pid;

	while (task->pid) {
		pid = waitpid(-1, NULL, __WNOTHREAD);
		if (pid > 0)
			forget(pid);
		else if (errno != EINTR)
			die("has no child to wait for");
	}
	reap_others();
}

/* The kernel drops a copy of the credentials by RCU. */
static void queue_rcu(uint64_t times)
{
	uint64_t done = 0;

	do
		setfsuid(getuid());
	while (++done < times);
}

static void do_step(struct task *me, const struct step *step)
{
	switch (step->kind) {
	case RUN:
		work(step->value);
		break;
	case POST:
		post(&tasks[step->value]);
		break;
	case WAIT:
		if (step->sync)
			wait_sync(me);
		else
			wait_post(me, step->value);
		break;
	case SLEEP:
		if (step->early)
			sleep_or_post(me, now_ns() + step->value);
		else
			sleep_ns(0, step->value);
		break;
	case UNTIL:
		if (step->early)
			sleep_or_post(me, begin_ns + step->value);
		else if (!step->late || now_ns() < begin_ns + step->value)
			sleep_ns(TIMER_ABSTIME, begin_ns + step->value);
		break;
	case SLACK:
		prctl(PR_SET_TIMERSLACK, step->value);
		break;
	case END:
		finish();
		break;
	case READ:
	case WRITE:
		transfer(step);
		break;
	case RCU:
		queue_rcu(step->value);
		break;
	case OPEN:
		if (write(gates[step->value][1], "", 1) != 1)
			die("a gate does not open");
		break;
	case PASS:
		pass(gates[step->value][0]);
		break;
	case FORK:
		start_process(&tasks[step->value], me);
		break;
	case REAP:
		reap(&tasks[step->value]);
		break;
	case LANE:
	case ON:
	case AFTER:
	case AGAIN:
	case EXIT:
	case KINDS:
		break;
	}
}

static void prepare(struct task *me)
{
	cpu_set_t one;

	prctl(PR_SET_NAME, me->name);
	stay_on(&one, me);
	while (!atomic_load(&shared->called))
		futex_wait(&shared->called, 0, 0);
	begin_ns = shared->begin_ns;
	if (!me->pinned)
		sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
	if (me->priority < REALTIME_BELOW)
		set_policy(me);
	/* A program begins behind a shell that worked, not from the deepest state. */
	queue_rcu(1);
}

static uint64_t to_ms(uint64_t ns)
{
	return ns / NS_PER_MS;
}

/*
 * Returns when a lane goes on: 0 if it does now, UINT64_MAX if its end decides.
 * Programs that poll count in whole ms, so timers of one ms expire together.
 */
static uint64_t lane_ms(const struct task *me, const struct lane *lane,
			uint64_t now_ms)
{
	const struct step *step = &me->steps[lane->next];
	uint64_t due_ms;

	if (lane->next == lane->stop || (step->kind == ON && !lane->ready))
		return UINT64_MAX;
	if (step->kind != AFTER)
		return 0;
	due_ms = to_ms(lane->last_ns) + step->value;
	return due_ms > now_ms ? due_ms : 0;
}

/* Does the steps of a lane until it waits again; returns false at the task's end. */
static bool serve(struct task *me, struct lane *lane)
{
	const struct step *step = &me->steps[lane->next++];

	if (step->kind == ON)
		lane->ready = false;
	for (; lane->next < lane->stop; lane->next++) {
		step = &me->steps[lane->next];
		if (step->kind == ON || step->kind == AFTER)
			break;
		if (step->kind == EXIT)
			return false;
		do_step(me, step);
		if (lane->timed && (step->kind == READ || step->kind == WRITE))
			lane->last_ns = now_ns();
	}
	if (lane->next == lane->stop && lane->again)
		lane->next = lane->again;
	return true;
}

/* Finds the lanes, and lets their ends be polled; returns how many there are. */
static size_t find_lanes(const struct task *me, size_t first, int poll, struct lane *lanes)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	size_t count = 0, i;
	bool polled = false;

	for (i = first; i < me->count; i++) {
		const struct step *step = &me->steps[i];

		if (step->kind == LANE) {
			if (count == LANES_MAX)
				die("a task has too many lanes");
			lanes[count++] = (struct lane) {
				.next = i + 1, .stop = i + 1, .last_ns = begin_ns,
			};
			polled = false;
			continue;
		}
		lanes[count - 1].stop = i + 1;
		if (step->kind == AGAIN)
			lanes[count - 1].again = i + 1;
		if (step->kind == AFTER)
			lanes[count - 1].timed = true;
		if (step->kind != ON || polled)
			continue;
		polled = true;
		event.data.u64 = count - 1;
		if (epoll_ctl(poll, EPOLL_CTL_ADD, ends[step->value], &event))
			die("an end cannot be polled");
	}
	return count;
}

/* Serves the lanes, each once in turn, and waits where none can go on, until one exits. */
static void play_lanes(struct task *me, size_t first)
{
	struct lane lanes[LANES_MAX];
	struct epoll_event found[LANES_MAX];
	int poll = epoll_create1(EPOLL_CLOEXEC), i, n;
	size_t count = find_lanes(me, first, poll, lanes), k;
	uint64_t now_ms = to_ms(begin_ns);

	for (;;) {
		uint64_t soonest_ms = UINT64_MAX, due_ms;
		int left_ms = -1;

		for (k = 0; k < count; k++) {
			if (!lane_ms(me, &lanes[k], now_ms) &&
			    !serve(me, &lanes[k]))
				return;
			due_ms = lane_ms(me, &lanes[k], now_ms);
			if (due_ms < soonest_ms)
				soonest_ms = due_ms;
		}
		if (soonest_ms != UINT64_MAX) {
			now_ms = to_ms(now_ns());
			left_ms = soonest_ms > now_ms ? (int)(soonest_ms - now_ms) : 0;
		}
		n = epoll_wait(poll, found, LANES_MAX, left_ms);
		/* The clock is read once a turn: that takes 1.25 us. */
		if (!n)
			now_ms = soonest_ms;
		for (i = 0; i < n; i++)
			lanes[found[i].data.u64].ready = true;
	}
}

static void play_steps(struct task *me)
{
	uint64_t up_ns = 0;
	size_t i;

	if (!me->forked)
		prepare(me);
	for (i = 0; i < me->count; i++) {
		if (me->steps[i].skip && begin_ns + me->steps[i].value < up_ns) {
			i += i + 1 < me->count && me->steps[i + 1].kind == RUN;
			continue;
		}
		if (me->steps[i].kind == LANE)
			play_lanes(me, i);
		/* Lanes return where the task exits. */
		if (me->steps[i].kind == LANE || me->steps[i].kind == EXIT) {
			reap_others();
			return;
		}
		do_step(me, &me->steps[i]);
		if (me->steps[i].skip)
			up_ns = now_ns();
	}
	/* No other thread ends: its exit was not recorded. */
	for (;;)
		pause();
}

static void *play(void *argument)
{
	play_steps(argument);
	return NULL;
}

static void make_gate(uint64_t number)
{
	if (number >= GATES_MAX)
		die("too many gates");
	if (!gates[number][1] && pipe2(gates[number], O_CLOEXEC))
		die("cannot make a gate");
}

static void add_step(struct task *task, char *line)
{
	const char *word = strtok(line, BLANKS);
	const char *value = strtok(NULL, BLANKS);
	struct step step = { .kind = RUN };

	while (step.kind < KINDS && strcmp(word, words[step.kind]))
		step.kind++;
	if (step.kind == KINDS)
		die("a step is of no known kind");
	if (value && (step.kind == READ || step.kind == WRITE)) {
		step.end = (unsigned int)strtoul(value, NULL, 10) % (2 * JOINTS_MAX);
		value = strtok(NULL, BLANKS);
	}
	step.sync = value && !strcmp(value, SYNC);
	if (step.sync && !task->pipe[1] && pipe2(task->pipe, O_CLOEXEC))
		die("cannot make a task's pipe");
	step.value = value ? strtoull(value, NULL, 10) : 0;
	word = strtok(NULL, BLANKS);
	step.early = word && !strcmp(word, EARLY);
	step.late = word && !strcmp(word, LATE);
	step.skip = word && !strcmp(word, SKIP);
	if ((step.kind == POST || step.kind == FORK || step.kind == REAP) &&
	    step.value >= TASKS_MAX)
		die("a step names no task");
	if (step.kind == OPEN || step.kind == PASS)
		make_gate(step.value);
	if (step.kind == FORK)
		tasks[step.value].forked = true;
	if (task->count == task->room) {
		task->room = task->room ? 2 * task->room : 64;
		task->steps = realloc(task->steps, task->room * sizeof(*task->steps));
		if (!task->steps)
			die("no memory");
	}
	task->steps[task->count++] = step;
}

static void connect_loopback(int *pair)
{
	struct sockaddr_in place = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(place);
	int listening = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listening, (struct sockaddr *)&place, size) || listen(listening, 1) ||
	    getsockname(listening, (struct sockaddr *)&place, &size) ||
	    connect(pair[0], (struct sockaddr *)&place, size))
		die("cannot connect over the loopback device");
	pair[1] = accept(listening, NULL, NULL);
	close(listening);
	setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* A pipe takes each message as a packet, in a page of its own. */
static void make_pipe(int *pair, unsigned int messages)
{
	int both[2];

	if (pipe2(both, O_DIRECT) || fcntl(both[1], F_SETPIPE_SZ, messages * PAGE_BYTES) < 0)
		die("cannot make a pipe of such a size");
	pair[0] = both[1];
	pair[1] = both[0];
}

/* Returns whether a line is about a joint, which is then made. */
static bool add_joint(const char *line)
{
	int *pair = &ends[2 * joint_count];
	unsigned int number, messages;

	if (joint_count == JOINTS_MAX)
		return false;
	if (sscanf(line, "pipe %u %u", &number, &messages) == 2)
		make_pipe(pair, messages);
	else if (sscanf(line, "tcp %u", &number) == 1)
		connect_loopback(pair);
	else
		return false;
	joint_count++;
	return true;
}

static void load(const char *path)
{
	FILE *file = fopen(path, "r");
	long priority, cpu;
	char line[256];
	int kinds;

	if (!file || !fgets(line, sizeof(line), file))
		die("cannot read the clone");
	while (fgets(line, sizeof(line), file)) {
		struct task *task = &tasks[task_count];

		if (*line == '#' || sscanf(line, "length %lu", &length_ns) == 1 ||
		    sscanf(line, "watchdog %lu", &watchdog_ns) == 1 ||
		    sscanf(line, "start %lu", &start_ns) == 1 ||
		    (!task_count && add_joint(line)))
			continue;
		if (sscanf(line, "task %*u %*s %ld %ld%n", &priority, &cpu, &kinds) == 2) {
			if (task_count == TASKS_MAX)
				die("too many tasks");
			snprintf(task->name, sizeof(task->name), "c%lu", task_count);
			task->priority = priority;
			task->cpu = cpu;
			task->pinned = strstr(line + kinds, PINNED);
			task->process = strstr(line + kinds, PROCESS);
			task->resident = strstr(line + kinds, RESIDENT);
			task_count++;
		} else if (task_count) {
			add_step(task - 1, line);
		}
	}
	fclose(file);
}

static void start_tasks(bool resident)
{
	pthread_attr_t small;
	pthread_t thread;
	unsigned long i;

	for (i = 0; i < task_count; i++)
		if (tasks[i].process && !tasks[i].forked && tasks[i].resident == resident)
			start_process(&tasks[i], NULL);

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	for (i = 0; i < task_count; i++)
		if (!tasks[i].process && tasks[i].resident == resident &&
		    pthread_create(&thread, &small, play, &tasks[i]))
			die("cannot make a thread");
}

static bool has_residents(void)
{
	unsigned long i;

	for (i = 0; i < task_count; i++)
		if (tasks[i].resident)
			return true;
	return false;
}

/*
 * A task that wakes others by turns has a count of that, which its children inherit.
 * Tasks with high counts are kept apart. The lab's shell has one of 70 to 81, but a
 * server that has run for long has none. The kernel halves it at the first wake-up
 * of a second.
 */
static void start_residents(void)
{
	const pid_t woken = _Fork();
	uint64_t tick_ns;
	unsigned long i;

	if (woken < 0)
		die("cannot make a process");
	while (!woken)
		futex_wait(&shared->rest, 0, 0);
	for (i = 0; i < TURNS_BITS; i++) {
		sleep_ns(0, HALVED_NS);
		futex_wake(&shared->rest, 1);
	}
	/* Softirqs of a tick, and the end of that process, wake a thread of RCU. */
	tick_ns = now_ns() / TICK_NS * TICK_NS + TICK_NS;
	sleep_ns(TIMER_ABSTIME, tick_ns + TICK_NS / 16);
	start_tasks(true);
	kill(woken, SIGKILL);
	waitpid(woken, NULL, 0);
}

/* The children of processes that end are left to this one. */
static void end_processes(void)
{
	unsigned long i;
	pid_t pid;

	do {
		for (i = 0; i < task_count; i++)
			if (tasks[i].pid)
				kill(tasks[i].pid, SIGKILL);
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid > 0)
			forget(pid);
		else if (!pid)
			usleep(REST_US);
	} while (pid >= 0);
}

/*
 * The console's port suspends 500 ms later, by a timer of the CPU that wrote.
 * The lab's shell writes there just before a phase, on the CPU where it goes on.
 */
static void say(const char *title)
{
	char line[256];
	cpu_set_t one;
	unsigned long i;

	for (i = 0; i < task_count; i++)
		if (tasks[i].count && tasks[i].steps[0].kind == UNTIL &&
		    !tasks[i].steps[0].value)
			break;
	if (i < task_count)
		stay_on(&one, &tasks[i]);
	sleep_ns(TIMER_ABSTIME, begin_ns - SAY_NS);
	snprintf(line, sizeof(line), "lab: %s\n", title);
	write_to(CONSOLE, line);
}

/* Returns when the first CPU's timer of the watchdog is due, 0 if there is none. */
static uint64_t watchdog_due_ns(void)
{
	FILE *timers = fopen(TIMERS, "r");
	bool found = false;
	uint64_t due_ns = 0;
	char line[256];

	if (!timers)
		die("cannot read the kernel's timers");
	while (!due_ns && fgets(line, sizeof(line), timers)) {
		if (strstr(line, "watchdog_timer_fn"))
			found = true;
		else if (found && sscanf(line, " # expires at %lu", &due_ns) != 1)
			die("the kernel's timers have another form");
	}
	fclose(timers);
	return due_ns;
}

/* Sets the watchdog's threshold. Its timers begin anew if it is another one. */
static void set_threshold(unsigned int threshold)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", threshold);
	if (!write_to(THRESHOLD, text) && !access(THRESHOLD, W_OK))
		die("cannot set the watchdog's threshold");
}

/*
 * Returns the least threshold by which the timer is due as recorded without a wait of
 * seconds, and once in the phase, or the usual one.
 */
static unsigned int threshold_of(uint64_t until_ns)
{
	unsigned int threshold = 1;

	while (threshold < USUAL && (threshold * PERIOD_NS < until_ns + AHEAD_NS + RESTART_NS ||
				     threshold * PERIOD_NS + until_ns < length_ns + RESTART_NS))
		threshold++;
	return threshold;
}

/*
 * Waits until the watchdog's timer is as far away as in the recording. It wakes a
 * thread on each CPU, and no sleep can be longer than the time until then.
 */
static void wait_for_watchdog(void)
{
	uint64_t until_ns = watchdog_ns % (USUAL * PERIOD_NS), wake_ns;
	unsigned int threshold = threshold_of(until_ns);

	if (!watchdog_due_ns())
		return;
	set_threshold(threshold);
	wake_ns = watchdog_due_ns() - until_ns - AHEAD_NS;
	while (wake_ns < now_ns())
		wake_ns += threshold * PERIOD_NS;
	sleep_ns(TIMER_ABSTIME, wake_ns);
}

/* Lets the tasks get up for a beginning that lies as recorded after a tick. */
static void call_tasks(uint64_t shift_ns)
{
	uint64_t soonest_ns = now_ns() + READY_NS;

	begin_ns = soonest_ns - soonest_ns % TICK_NS + (start_ns + shift_ns) % TICK_NS;
	if (begin_ns < soonest_ns)
		begin_ns += TICK_NS;
	shared->begin_ns = begin_ns;
	atomic_store(&shared->called, 1);
	futex_wake(&shared->called, INT_MAX);
}

int main(int argc, char **argv)
{
	const struct rlimit files = { FILES_MAX, FILES_MAX };
	uint64_t last_ns;

	if (argc != 4 && argc != 6)
		die("usage: player FILE SHIFT_NS MARK [GOVERNOR TITLE]");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		die("no memory");
	tasks = shared->tasks;
	shared->main = getpid();
	setrlimit(RLIMIT_NOFILE, &files);
	load(argv[1]);
	sched_getaffinity(0, sizeof(all_cpus), &all_cpus);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* The child of a task that has ended is left to this one, and wakes no other. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	start_tasks(false);
	if (has_residents())
		start_residents();
	sleep_ns(0, START_NS + task_count * FORK_NS);
	/* The kernel enables a governor at a switch: it has learned nothing then. */
	if (argc == 6)
		govern(strcmp(argv[4], "ladder") ? "ladder" : "menu");
	if (watchdog_ns != UINT64_MAX)
		wait_for_watchdog();
	if (argc == 6)
		govern(argv[4]);
	call_tasks(strtoull(argv[2], NULL, 10));
	if (argc == 6)
		say(argv[5]);
	last_ns = begin_ns + PATIENCE * length_ns;
	sleep_ns(TIMER_ABSTIME, begin_ns - MARK_NS);
	mark(argv[3]);
	while (!atomic_load(&shared->ended) && now_ns() < last_ns)
		futex_wait(&shared->ended, 0, last_ns);
	if (!atomic_load(&shared->ended))
		die("the clone is stuck: a task waits for what never comes");
	end_processes();
	if (watchdog_ns != UINT64_MAX)
		set_threshold(USUAL);
	return shared->failed;
}
