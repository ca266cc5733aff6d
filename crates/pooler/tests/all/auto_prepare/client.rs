//! A client that keeps of an answer what the comparison is about.

use crate::common::message::{Message, bind_as, describe, execute, parse, sync};
use crate::common::raw::Raw;

/// What came back for one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// OIDs of ParameterDescription.
    pub parameters: Vec<u32>,
    /// The body of RowDescription.
    pub description: Vec<u8>,
    /// Bodies of DataRow.
    pub rows: Vec<Vec<u8>>,
    pub tag: String,
    /// SQLSTATE, message, detail, hint.
    pub error: Option<Vec<String>>,
    /// Where in the text the error lies.
    pub position: Option<usize>,
}

impl Answer {
    /// The error, and where in the text it lies.
    pub fn failure(&self) -> (&Option<Vec<String>>, Option<usize>) {
        (&self.error, self.position)
    }

    fn of(messages: Vec<Message>) -> Answer {
        let mut answer = Answer::default();
        for message in messages {
            match message.tag {
                b'T' => answer.description = message.body,
                b'D' => answer.rows.push(message.body),
                b'C' => answer.tag = message.texts().swap_remove(0),
                b't' => answer.parameters = message.type_oids(),
                b'E' => {
                    let field = |code| message.field(code).unwrap_or_default();
                    answer.position = field(b'P').parse().ok();
                    answer.error = Some([b'C', b'M', b'D', b'H'].map(field).to_vec());
                }
                _ => {}
            }
        }
        answer
    }
}

pub struct Client(pub Raw);

impl Client {
    pub fn simple(&mut self, text: &str) -> Answer {
        self.0.send_query(text);
        Answer::of(self.0.until_ready())
    }

    /// Parse and Describe.
    pub fn prepare(&mut self, name: &str, text: &str, types: &[u32]) -> Answer {
        self.0
            .send(&[parse(name, text, types), describe(b'S', name), sync()].concat());
        Answer::of(self.0.until_ready())
    }

    /// Bind, Execute. Values are bytes in the format of text.
    pub fn execute(&mut self, name: &str, values: &[impl AsRef<[u8]>]) -> Answer {
        let values: Vec<_> = values.iter().map(Some).collect();
        let run = [bind_as("", name, &values, &[]), execute("", 0), sync()];
        self.0.send(&run.concat());
        Answer::of(self.0.until_ready())
    }
}
