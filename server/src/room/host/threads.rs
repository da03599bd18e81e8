//! Rooms on OS threads of their own, apart from socket I/O. A thread sleeps until its next due run, or for ever.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::Thread,
};

use parking_lot::Mutex;

use super::executor::{Activity, Busy, Executor, Next, Wake};
use crate::runtime::{Clock, Mono};

/// The executor for production.
pub struct Threads {
    workers: Vec<Arc<Worker>>,
}

/// What a thread shares with those who wake it.
struct Worker {
    mail: Mutex<Mail>,
    thread: Mutex<Option<Thread>>,
    load: AtomicUsize,
    wakeups: AtomicU64,
    busy: Mutex<Option<Busy>>,
    stop: AtomicBool,
}

// Bounded by the number of activities: each is spawned once, and is in `woken` at most once (its flag).
#[derive(Default)]
struct Mail {
    spawned: Vec<(usize, Slot)>,
    woken: Vec<usize>,
    free: Vec<usize>,
    slots: usize,
}

struct Slot {
    label: Arc<str>,
    activity: Box<dyn Activity>,
    flag: Arc<AtomicBool>,
    // Heap entries of an older epoch are void.
    epoch: u64,
}

struct Handle {
    worker: Arc<Worker>,
    slot: usize,
    flag: Arc<AtomicBool>,
}

impl Threads {
    /// Starts `count` threads (at least one).
    ///
    /// # Errors
    /// When the operating system gives no more threads.
    pub fn start(count: usize, clock: &Clock) -> io::Result<Self> {
        let mut workers = Vec::new();
        for n in 0..count.max(1) {
            let worker = Arc::new(Worker {
                mail: Mutex::default(),
                thread: Mutex::new(None),
                load: AtomicUsize::new(0),
                wakeups: AtomicU64::new(0),
                busy: Mutex::new(None),
                stop: AtomicBool::new(false),
            });
            let (run, clock) = (worker.clone(), clock.clone());
            let join = std::thread::Builder::new().name(format!("rooms-{n}")).spawn(move || run.run(&clock))?;
            *worker.thread.lock() = Some(join.thread().clone());
            // Mail that came before the line above is found now.
            join.thread().unpark();
            workers.push(worker);
        }
        Ok(Self { workers })
    }
}

impl Executor for Threads {
    fn spawn(&self, label: Arc<str>, activity: Box<dyn Activity>) -> Arc<dyn Wake> {
        // The least loaded thread; among equals the first.
        let worker =
            self.workers.iter().min_by_key(|w| w.load.load(Ordering::Relaxed)).unwrap_or(&self.workers[0]).clone();
        worker.load.fetch_add(1, Ordering::Relaxed);
        let flag = Arc::new(AtomicBool::new(true));
        let slot = {
            let mut mail = worker.mail.lock();
            let slot = mail.free.pop().unwrap_or_else(|| {
                mail.slots += 1;
                mail.slots - 1
            });
            mail.spawned.push((slot, Slot { label, activity, flag: flag.clone(), epoch: 0 }));
            mail.woken.push(slot);
            slot
        };
        worker.unpark();
        Arc::new(Handle { worker, slot, flag })
    }

    fn busy(&self) -> Vec<Busy> {
        self.workers.iter().filter_map(|w| w.busy.lock().clone()).collect()
    }

    fn wakeups(&self) -> u64 {
        self.workers.iter().map(|w| w.wakeups.load(Ordering::Relaxed)).sum()
    }

    fn stop(&self) {
        for worker in &self.workers {
            worker.stop.store(true, Ordering::Release);
            worker.unpark();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Wake for Handle {
    fn wake(&self) {
        if !self.flag.swap(true, Ordering::AcqRel) {
            self.worker.mail.lock().woken.push(self.slot);
            self.worker.unpark();
        }
    }
}

impl Worker {
    fn unpark(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    fn run(&self, clock: &Clock) {
        let mut slots: Vec<Option<Slot>> = Vec::new();
        let mut due: BinaryHeap<Reverse<(Mono, usize, u64)>> = BinaryHeap::new();
        while !self.stop.load(Ordering::Acquire) {
            self.collect(clock.now(), &mut slots, &mut due);
            while let Some(&Reverse((at, slot, epoch))) = due.peek() {
                let now = clock.now();
                if at > now {
                    break;
                }
                due.pop();
                self.run_one(now, slot, epoch, &mut slots, &mut due);
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                // A wake must not wait behind a thread that is never idle.
                self.collect(now, &mut slots, &mut due);
            }
            clock.park_until(due.peek().map(|entry| entry.0.0));
            self.wakeups.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes new and woken activities over: they are due now.
    fn collect(&self, now: Mono, slots: &mut Vec<Option<Slot>>, due: &mut BinaryHeap<Reverse<(Mono, usize, u64)>>) {
        let (spawned, woken) = {
            let mut mail = self.mail.lock();
            if mail.spawned.is_empty() && mail.woken.is_empty() {
                return;
            }
            (std::mem::take(&mut mail.spawned), std::mem::take(&mut mail.woken))
        };
        for (index, slot) in spawned {
            if slots.len() <= index {
                slots.resize_with(index + 1, || None);
            }
            slots[index] = Some(slot);
        }
        for index in woken {
            if let Some(slot) = slots.get_mut(index).and_then(Option::as_mut) {
                slot.epoch += 1;
                due.push(Reverse((now, index, slot.epoch)));
            }
        }
    }

    fn run_one(
        &self,
        now: Mono,
        index: usize,
        epoch: u64,
        slots: &mut [Option<Slot>],
        due: &mut BinaryHeap<Reverse<(Mono, usize, u64)>>,
    ) {
        let Some(slot) = slots[index].as_mut().filter(|slot| slot.epoch == epoch) else { return };
        // Cleared before the run: what is said during the run leads to another one.
        slot.flag.store(false, Ordering::Release);
        *self.busy.lock() = Some(Busy { since: now, label: slot.label.clone() });
        let next = slot.activity.run(now);
        *self.busy.lock() = None;
        slot.epoch += 1;
        match next {
            Next::At(at) => due.push(Reverse((at, index, slot.epoch))),
            Next::Wait => {}
            Next::Done => {
                // Handles of this activity may live on: with the flag set they never push this slot's number again.
                let woken = slot.flag.swap(true, Ordering::AcqRel);
                slots[index] = None;
                self.load.fetch_sub(1, Ordering::Relaxed);
                let mut mail = self.mail.lock();
                if woken {
                    mail.woken.retain(|w| *w != index);
                }
                mail.free.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;
    use crate::runtime::Wall;

    struct Told(mpsc::Sender<Mono>, Vec<Next>);

    impl Activity for Told {
        fn run(&mut self, now: Mono) -> Next {
            self.0.send(now).expect("the test listens");
            self.1.pop().unwrap_or(Next::Wait)
        }
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn it_runs_when_due_when_woken_and_otherwise_sleeps() {
        let (clock, hand) = Clock::manual(Wall(0));
        let threads = Threads::start(1, &clock).expect("threads");
        let (told, runs) = mpsc::channel();
        let later = Mono(50_000_000);
        let wake = threads.spawn("a".into(), Box::new(Told(told, vec![Next::Wait, Next::At(later)])));
        assert_eq!(runs.recv_timeout(LIMIT), Ok(Mono(0)), "at once");
        hand.advance(Duration::from_millis(49));
        hand.advance(Duration::from_millis(1));
        assert_eq!(runs.recv_timeout(LIMIT), Ok(later), "never before it is due");
        wake.wake();
        assert_eq!(runs.recv_timeout(LIMIT), Ok(later), "woken");
    }

    #[test]
    fn an_ended_activity_is_dropped_and_its_place_is_used_again() {
        let (clock, _hand) = Clock::manual(Wall(0));
        let threads = Threads::start(1, &clock).expect("threads");
        let mut handles = Vec::new();
        for _ in 0..100 {
            let (told, runs) = mpsc::channel();
            handles.push(threads.spawn("a".into(), Box::new(Told(told, vec![Next::Done]))));
            assert_eq!(runs.recv_timeout(LIMIT), Ok(Mono(0)));
            assert_eq!(runs.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Disconnected), "dropped");
            // A handle of an ended activity wakes nobody.
            handles.iter().for_each(|handle| handle.wake());
        }
        assert!(threads.workers[0].mail.lock().slots <= 2);
        // One more that stays: when it runs, the thread has done with all that ended before it.
        let (told, runs) = mpsc::channel();
        let _stays = threads.spawn("a".into(), Box::new(Told(told, vec![Next::Wait])));
        assert_eq!(runs.recv_timeout(LIMIT), Ok(Mono(0)));
        assert_eq!(threads.workers[0].load.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn activities_are_spread_over_threads_and_a_stuck_one_is_seen() {
        let (clock, _hand) = Clock::manual(Wall(0));
        let threads = Threads::start(2, &clock).expect("threads");
        struct Stuck(mpsc::Receiver<()>, mpsc::Sender<()>);
        impl Activity for Stuck {
            fn run(&mut self, _: Mono) -> Next {
                self.1.send(()).expect("the test listens");
                self.0.recv().expect("the test lets it go");
                Next::Done
            }
        }
        let (go, wait) = mpsc::channel();
        let (begun, begin) = mpsc::channel();
        threads.spawn("stuck".into(), Box::new(Stuck(wait, begun)));
        begin.recv_timeout(LIMIT).expect("it runs");
        assert_eq!(threads.busy(), [Busy { since: Mono(0), label: "stuck".into() }]);
        let (told, runs) = mpsc::channel();
        threads.spawn("b".into(), Box::new(Told(told, vec![])));
        assert_eq!(runs.recv_timeout(LIMIT), Ok(Mono(0)), "the other thread is free");
        go.send(()).expect("it waits");
    }
}
