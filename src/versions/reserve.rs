//! Space kept for the end of what was begun: an operation that is on its way can be finished on a full disk.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::fs::FallocateFlags;

/// Bytes in reserve.
pub(super) const SIZE: u64 = if cfg!(test) { 1 << 20 } else { 16 << 20 };

/// The file `reserve`.
pub(super) struct Reserve {
    path: PathBuf,
    /// It was used up and is not back.
    spent: AtomicBool,
}

impl Reserve {
    /// Takes the reserve, if there is room for it.
    pub fn take(store: &Path) -> Reserve {
        let reserve = Reserve { path: store.join("reserve"), spent: AtomicBool::new(false) };
        // On a disk that small, work goes on without one.
        let _ = reserve.fill();
        reserve
    }

    fn fill(&self) -> std::io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        if file.metadata()?.len() >= SIZE {
            return Ok(());
        }
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SIZE) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => {
                file.set_len(0)?;
                Err(error.into())
            }
        }
    }

    /// Gives the space free. False if there was none.
    pub fn release(&self) -> bool {
        self.spent.store(true, Ordering::Release);
        let released = || -> std::io::Result<bool> {
            let file = File::options().write(true).open(&self.path)?;
            let had = file.metadata()?.len() > 0;
            file.set_len(0)?;
            Ok(had)
        };
        released().unwrap_or(false)
    }

    /// False while what was spent cannot be taken back: then nothing new may be begun.
    pub fn is_whole(&self) -> bool {
        if !self.spent.load(Ordering::Acquire) {
            return true;
        }
        let whole = self.fill().is_ok();
        if whole {
            self.spent.store(false, Ordering::Release);
        }
        whole
    }
}
