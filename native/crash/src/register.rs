//! Something that is set over and over: what it may be found as after a kill.

/// The states that were asked for, in order, and how many of them were answered.
#[derive(Debug, Clone)]
pub struct Register<T> {
    /// The first was found; the others were asked for since.
    states: Vec<T>,
    answered: usize,
}

impl<T: PartialEq + Clone> Register<T> {
    /// A register that was found as `state`.
    pub fn new(state: T) -> Register<T> {
        Register {
            states: vec![state],
            answered: 0,
        }
    }

    /// A state is asked for, the `number`th since it was found. False when one was left out.
    pub fn ask(&mut self, number: u64, state: T) -> bool {
        self.states.push(state);
        self.states.len() as u64 == number.saturating_add(1)
    }

    /// The `number`th was answered as durable, which says the same of all before. False when it was never asked for.
    pub fn answer(&mut self, number: u64) -> bool {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.answered = self.answered.max(number);
        number < self.states.len()
    }

    /// What is durable for certain.
    pub fn certain(&self) -> Option<&T> {
        self.states.get(self.answered)
    }

    /// What it may be found as.
    pub fn possible(&self) -> &[T] {
        self.states.get(self.answered..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_certain_and_what_was_asked_since_possible() {
        let mut register = Register::new(0);
        assert_eq!(register.possible(), [0]);
        assert!(register.ask(1, 10) && register.ask(2, 20) && register.ask(3, 30));
        assert_eq!(register.possible(), [0, 10, 20, 30]);
        assert!(register.answer(2) && register.answer(1));
        assert_eq!((register.certain(), register.possible()), (Some(&20), &[20, 30][..]));
        assert!(!register.ask(5, 50));
        assert!(!register.answer(9));
    }
}
