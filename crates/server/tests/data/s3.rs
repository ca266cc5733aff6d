//! A server of the S3 protocol in memory, as much of it as is needed to list, read and write objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

pub struct S3 {
    pub endpoint: String,
    /// By bucket and key: `bucket/folder/file`.
    pub objects: Objects,
}

impl S3 {
    pub async fn start() -> S3 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let objects = Objects::default();
        let served = Arc::clone(&objects);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&served)));
            }
        });
        S3 { endpoint, objects }
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

async fn serve(client: TcpStream, objects: Objects) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    while let Some(request) = read(&mut client).await? {
        let (status, headers, body) = answer(&request, &objects);
        let length = if request.method == "HEAD" {
            headers.length.unwrap_or(0)
        } else {
            body.len()
        };
        let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\netag: \"e\"\r\n");
        head += "last-modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n";
        if let Some(range) = headers.range {
            head += &format!("content-range: {range}\r\n");
        }
        client.get_mut().write_all((head + "\r\n").as_bytes()).await?;
        if request.method != "HEAD" {
            client.get_mut().write_all(&body).await?;
        }
    }
    Ok(())
}

async fn read(client: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if client.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default().to_owned(),
        words.next().unwrap_or_default(),
    );
    let address = url::Url::parse(&format!("http://x{target}")).expect("a path");
    let path = address.path().trim_start_matches('/').to_owned();
    let query = address.query_pairs().into_owned().collect();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        client.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    client.read_exact(&mut body).await?;
    Ok(Some(Request {
        method,
        path,
        query,
        headers,
        body,
    }))
}

#[derive(Default)]
struct Headers {
    length: Option<usize>,
    range: Option<String>,
}

fn answer(request: &Request, objects: &Objects) -> (&'static str, Headers, Vec<u8>) {
    let mut objects = objects.lock().unwrap();
    // Requests must be signed with the key of the test.
    if !request
        .headers
        .get("authorization")
        .is_some_and(|signed| signed.contains("Credential=key/"))
    {
        return ("403 Forbidden", Headers::default(), Vec::new());
    }
    match request.method.as_str() {
        "PUT" => {
            objects.insert(request.path.clone(), request.body.clone());
            ("200 OK", Headers::default(), Vec::new())
        }
        "GET" if request.query.contains_key("list-type") => {
            ("200 OK", Headers::default(), list(request, &objects).into_bytes())
        }
        "GET" | "HEAD" => match objects.get(&request.path) {
            None => ("404 Not Found", Headers::default(), Vec::new()),
            Some(object) => part(request, object),
        },
        _ => ("405 Method Not Allowed", Headers::default(), Vec::new()),
    }
}

fn part(request: &Request, object: &[u8]) -> (&'static str, Headers, Vec<u8>) {
    let range = request
        .headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let whole = Headers {
        length: Some(object.len()),
        range: None,
    };
    let Some((from, to)) = range.and_then(|range| range.split_once('-')) else {
        return ("200 OK", whole, object.to_vec());
    };
    let last = object.len() - 1;
    let (from, to) = match from.parse::<usize>() {
        Ok(from) => (from, to.parse().map_or(last, |to: usize| to.min(last))),
        Err(_) => (
            object.len() - to.parse::<usize>().unwrap().min(object.len()),
            last,
        ),
    };
    let headers = Headers {
        length: Some(to - from + 1),
        range: Some(format!("bytes {from}-{to}/{}", object.len())),
    };
    ("206 Partial Content", headers, object[from..=to].to_vec())
}

fn list(request: &Request, objects: &BTreeMap<String, Vec<u8>>) -> String {
    let bucket = request.path.trim_end_matches('/');
    let prefix = request.query.get("prefix").cloned().unwrap_or_default();
    let mut found = String::new();
    for (path, object) in objects {
        let Some(key) = path.strip_prefix(bucket).and_then(|path| path.strip_prefix('/')) else {
            continue;
        };
        if key.starts_with(&prefix) {
            found += &format!(
                "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>\"e\"</ETag><Size>{}</Size></Contents>",
                object.len()
            );
        }
    }
    format!(
        "<?xml version=\"1.0\"?><ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
    )
}
