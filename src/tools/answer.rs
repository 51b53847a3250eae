//! What a tool answers: text for a model, the structured form for a program, media beside them.

use control_api::ToolError;
use serde::Serialize;
use serde_json::Value;

use super::{Block, ToolOutcome};

/// An answer.
pub(super) struct Answer {
    blocks: Vec<Block>,
    structured: Value,
    is_error: bool,
}

impl Answer {
    /// A result, and how it reads.
    pub fn new(text: String, result: &impl Serialize) -> Answer {
        Answer::with_blocks(vec![Block::Text(text)], result)
    }

    /// A result that comes with media.
    pub fn with_blocks(blocks: Vec<Block>, result: &impl Serialize) -> Answer {
        Answer { blocks, structured: json(result), is_error: false }
    }

    /// A failure.
    pub fn error(text: String, error: &ToolError) -> Answer {
        Answer { blocks: vec![Block::Text(text)], structured: json(error), is_error: true }
    }

    /// As the door takes it.
    pub fn into_outcome(self) -> ToolOutcome {
        ToolOutcome { content: self.blocks, structured: self.structured, is_error: self.is_error }
    }
}

/// The JSON of one of our own results.
pub(super) fn json(result: &impl Serialize) -> Value {
    serde_json::to_value(result).expect("results are made of names and values that JSON has")
}
